"""Lexical substitution: a model, a synonym table or a detector measured by what people say of words in context."""
