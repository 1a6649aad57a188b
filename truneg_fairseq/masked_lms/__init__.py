"""Masked LMs to measure, from fairseq checkpoints and Hugging Face folders: probabilities at masked places, states."""
