"""Scores, robustness and statistics of fine-tuned models; imports neither fairseq nor torch."""
