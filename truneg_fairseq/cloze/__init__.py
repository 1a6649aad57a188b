"""Cloze answers: what people write next, against what a model finds probable there."""
