"""SQuAD: its files and windows, the fairseq task, fine-tuning, answers and their scores."""
