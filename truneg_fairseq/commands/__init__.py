"""Subcommands of ``truneg``."""
