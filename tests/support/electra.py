"""The flags of a small ELECTRA training."""

ELECTRA_MODEL = """
--arch electra_tiny --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 --encoder-attention-heads 4 --embedding-dim 16
--generator-embed-dim 24 --generator-ffn-embed-dim 32 --generator-attention-heads 2 --max-positions 64
--dropout 0 --attention-dropout 0
""".split()
ELECTRA_TRAINING = """
--task electra_pretraining --criterion electra --tokens-per-sample 24 --batch-size 4 --optimizer electra_adam --lr 0.01
--lr-scheduler electra_linear --warmup-updates 2 --max-update 20 --seed 1 --num-workers 0 --cpu --mask-prob 0.3
--required-batch-size-multiple 1
""".split()
