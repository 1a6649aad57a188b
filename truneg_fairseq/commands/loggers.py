"""The flags of fairseq's loggers, for the commands that fine-tune."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_logger_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that are passed through to fairseq-train."""
    parser.add_argument("--tensorboard-logdir", type=Path, metavar="DIR", help="TensorBoard's, a folder for each run")
    parser.add_argument("--wandb-project", metavar="NAME", help="of Weights and Biases, where runs are logged")
