"""The process of one evaluation of an experiment: ``truneg`` that ends when the experiment is killed."""

from __future__ import annotations

from ..finetuning.process import end_with_command
from .main import main

if __name__ == "__main__":
    end_with_command()
    main()
