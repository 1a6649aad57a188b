#!/bin/bash
# Parallel text to fairseq's data, in pieces of SentencePiece that both languages share:
#   prepare.sh TEXT SOURCE TARGET DATA-BIN [PIECES]
# TEXT has train.SOURCE, train.TARGET, valid.*, and test*.* where there are some: a sentence per line. Needs pip install sentencepiece.
set -euo pipefail
text=$1 source=$2 target=$3 output=$4 pieces=${5:-6000}
[ ! -e "$output/dict.$source.txt" ] || { echo "$output: has data already; choose another folder" >&2; exit 1; }
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
counts = {}
for language in languages:
    for path in Path(text).glob(f"*.{language}"):
        # Not splitlines(), which ends a line at characters within a sentence too.
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
        counts.setdefault(path.stem, set()).add(len(lines))
        pieces = processor.encode(lines, out_type=str)
        Path(output, "text", path.name).write_text("".join(" ".join(line) + "\n" for line in pieces), encoding="utf-8")
if uneven := [name for name, found in counts.items() if len(found) > 1]:
    sys.exit(f"{text}/{uneven[0]}.*: the two languages have different numbers of lines")
PYTHON
tests=
for test in "$output/text"/test*."$source"; do
    [ ! -e "$test" ] || tests=${tests:+$tests,}${test%."$source"}
done
fairseq-preprocess --source-lang "$source" --target-lang "$target" --joined-dictionary --workers 2 --destdir "$output" \
    --trainpref "$output/text/train" --validpref "$output/text/valid" ${tests:+--testpref "$tests"}
