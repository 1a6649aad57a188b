"""What fine-tuning on GLUE and on SQuAD share."""
