"""For tools that call setup.py; the metadata are in pyproject.toml."""

from setuptools import setup

setup()
