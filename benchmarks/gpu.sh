#!/usr/bin/env bash
# Every table of training steps on one GPU, for docs/explain/speed.md: bash benchmarks/gpu.sh > tables.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
on_gpu=(--device cuda --batch-size 128 --updates 20 --warmup 5)
python overhead.py
python electra.py "${on_gpu[@]}" --precision bf16
python models.py "${on_gpu[@]}" --precision bf16
python models.py "${on_gpu[@]}" --precision bf16 --size base
python objectives.py "${on_gpu[@]}" --precision bf16
python objectives.py "${on_gpu[@]}" --precision bf16 --style electra
python objectives.py "${on_gpu[@]}" --precision bf16 --variants false-negatives
python objectives.py "${on_gpu[@]}" --precision bf16 --variants false-negatives --style electra
python objectives.py "${on_gpu[@]}" --precision bf16 --style generation
