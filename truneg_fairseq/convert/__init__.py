"""Weights of other frameworks as fairseq checkpoints."""
