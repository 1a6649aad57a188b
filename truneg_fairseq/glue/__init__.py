"""GLUE: its files, the fairseq task, fine-tuning and predictions."""
