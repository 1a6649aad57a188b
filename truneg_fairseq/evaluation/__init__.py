"""Models against text and people: held-out text, lexical substitution, cloze answers, minimal pairs, similarity."""
