"""Masked LMs to be measured: probabilities at masked places and states, of fairseq's checkpoints and Hugging Face's."""
