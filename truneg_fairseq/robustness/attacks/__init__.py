"""Adversarial transformations of SQuAD, written from the descriptions of TextFlint's (Table 5 of the paper)."""
