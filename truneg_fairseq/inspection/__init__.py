"""Checkpoints on data: rates, false negatives in their sentences."""
