"""Experiments: arms and seeds of pre-training from one file, each evaluated the same way, and compared."""
