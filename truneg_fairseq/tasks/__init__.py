"""fairseq's task of pre-training."""
