"""Adversarial attacks on SQuAD, and how much they cost a model. Imports neither fairseq nor torch."""
