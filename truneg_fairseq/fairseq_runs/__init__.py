"""All that runs inside fairseq-train: its trainer, start and stop, repairs of fairseq, and the training's folder."""
