"""Minimal pairs: does a model find the grammatical sentence more probable?"""
