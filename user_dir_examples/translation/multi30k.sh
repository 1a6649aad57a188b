#!/bin/bash
# An arm of the comparison on Multi30k (docs/results/plan.md): multi30k.sh PAIRS ARM SEED OUTPUT [OPTIONS of fairseq-train]
# PAIRS is what prepare.sh made, in 4,000 pieces, of https://github.com/multi30k/dataset, data/task1/raw: train, val as valid,
# test_2016_flickr as test, test_2017_flickr as test1; with synonyms.npz and corpus_counts.npz (docs/start/translation.md). The published arm gaussian ran at commit f79ecf053f9e7a5d7e9120660234414dbfbdbb78. OUTPUT gets scores.SET.json.
set -euo pipefail
pairs=$1 arm=$2 seed=$3 output=$4
smoothed=(--criterion label_smoothed_true_neg) synonyms=(--soft-targets table:flat=0.1)
case $arm in
none) criterion=("${smoothed[@]}") ;;
uniform) criterion=("${smoothed[@]}" --label-smoothing 0.1) ;;
synonyms) criterion=("${smoothed[@]}" "${synonyms[@]}") ;;
corpus) criterion=("${smoothed[@]}" --soft-targets corpus=0.1) ;;
both) criterion=("${smoothed[@]}" --label-smoothing 0.1 --soft-targets corpus=0.1) ;;
*) echo "$arm: expected none, uniform, synonyms, corpus or both" >&2 && exit 2 ;;
esac
truneg train "$pairs" --task translation -s de -t en --arch transformer_iwslt_de_en --share-all-embeddings \
    --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 128 --decoder-embed-dim 128 --encoder-ffn-embed-dim 256 \
    --decoder-ffn-embed-dim 256 --dropout 0.1 --optimizer adam --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 500 \
    --max-tokens 1500 --max-epoch 4 --no-epoch-checkpoints --required-batch-size-multiple 1 --seed "$seed" \
    "${criterion[@]}" --save-dir "$output" "${@:5}"
for split in test test1; do
    [ -e "$pairs/$split.de-en.de.idx" ] || continue
    fairseq-generate "$pairs" --user-dir "$(truneg user-dir)" --path "$output/checkpoint_best.pt" -s de -t en --gen-subset $split --beam 5 \
        --required-batch-size-multiple 1 --remove-bpe sentencepiece > "$output/$split.txt"
    for side in T H; do  # in the order of the text
        grep "^$side-" "$output/$split.txt" | sort -t- -k2n | awk -F'\t' '{ print $NF }' > "$output/$split.$side"
    done
    sacrebleu "$output/$split.T" -i "$output/$split.H" -m bleu chrf -w 4 | tee "$output/scores.$split.json"
done
