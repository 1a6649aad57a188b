#!/bin/bash
# Parallel text to fairseq's data, in pieces of SentencePiece that both languages share:
#   prepare.sh TEXT SOURCE TARGET DATA-BIN [PIECES]
# TEXT has train.SOURCE, train.TARGET, valid.*, and test*.* where there are some: a sentence per line. Needs pip install sentencepiece.
set -euo pipefail
text=$1 source=$2 target=$3 output=$4 pieces=${5:-6000}
mkdir -p "$output/text"
python - "$text" "$output" "$pieces" "$source" "$target" <<'PYTHON'
import sys
from pathlib import Path

import sentencepiece

text, output, pieces, *languages = sys.argv[1:]
model = f"{output}/sentencepiece.model"
sentencepiece.SentencePieceTrainer.train(
    input=[f"{text}/train.{language}" for language in languages], model_prefix=model.removesuffix(".model"),
    vocab_size=int(pieces), hard_vocab_limit=False, character_coverage=1.0, minloglevel=2,
)
processor = sentencepiece.SentencePieceProcessor(model_file=model)
for language in languages:
    for path in Path(text).glob(f"*.{language}"):
        lines = processor.encode(path.read_text(encoding="utf-8").splitlines(), out_type=str)
        Path(output, "text", path.name).write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
PYTHON
tests=$(cd "$output/text" && ls test*."$source" 2>/dev/null | sed "s|^|$output/text/|; s|\.$source\$||" | paste -sd, || true)
fairseq-preprocess --source-lang "$source" --target-lang "$target" --joined-dictionary --workers 2 --destdir "$output" \
    --trainpref "$output/text/train" --validpref "$output/text/valid" ${tests:+--testpref "$tests"}
