"""Adversarial attacks on SQuAD (Table 5 of the paper), and how much they cost a model; neither fairseq nor torch."""
