"""Tokens as text, by kind of dictionary."""

from __future__ import annotations

# What GPT-2's tokenizer makes of: He said \u201ccaf\u00e9 is so\u201d
GPT2 = "<s> He \u0120said \u0120\u00e2\u0122\u013e caf \u00c3\u00a9 \u0120is \u0120so \u00e2\u0122 \u013f </s>".split()
