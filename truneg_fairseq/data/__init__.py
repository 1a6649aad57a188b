"""Turning text into the binarized data that fairseq trains on."""
