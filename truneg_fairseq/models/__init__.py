"""fairseq models: bert.py and electra.py register them; checkpoints.py needs no fairseq to read a checkpoint."""
