"""Sentence similarity without training: cosines of mean states against people's scores."""
