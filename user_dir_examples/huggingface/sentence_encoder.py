"""Continues a sentence encoder on own text, and saves it for sentence-transformers.

    python sentence_encoder.py --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --train_file train.txt \\
        --validation_file valid.txt --output_dir DIR --hc_weight 1 --max_steps 500 --stsb_file STS-B/dev.tsv

SentenceTransformer("DIR/sentence_encoder") loads what comes out; the flags are those of train.py. STS-B is GLUE's, or
Hugging Face's file of nyu-mll/glue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from train import ScriptArguments, run

from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.glue.files import TASKS, read_split
from truneg_fairseq.glue.metrics import regression_metrics
from truneg_fairseq.hf import TrueNegativeArguments


@dataclass
class SentenceArguments(ScriptArguments):
    """What is trained on what, and how it is measured."""

    stsb_file: str | None = field(
        default=None, metadata={"help": "STS-B's dev.tsv: prints the correlation with people before and after"}
    )


def correlation(encoder: Any, file: str) -> float:
    """Spearman's correlation of the cosines of STS-B's pairs with people's scores, in %."""
    import numpy as np

    split = read_split(TASKS["STS-B"], "valid", Path(file))
    first, second = (encoder.encode(texts, show_progress_bar=False) for texts in split.texts)
    cosine = encoder.similarity_pairwise(first, second).numpy()
    return 100 * regression_metrics(cosine, np.array(split.labels, dtype=float))["spearman"]


def main() -> None:
    """Trains a masked LM on the encoder, and puts its weights in place of the encoder's."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise TrueNegError("sentence_encoder.py: needs a package; run pip install sentence-transformers") from None
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser((SentenceArguments, TrueNegativeArguments, TrainingArguments), description=__doc__)
    arguments, true_negatives, training = parser.parse_args_into_dataclasses()
    encoder = SentenceTransformer(arguments.model_name_or_path, device="cpu")
    before = correlation(encoder, arguments.stsb_file) if arguments.stsb_file else None
    trainer = run(arguments, true_negatives, training)
    weights = trainer.accelerator.unwrap_model(trainer.model).base_model.state_dict()
    missing, unexpected = encoder[0].auto_model.load_state_dict(weights, strict=False)
    # The pooler is not there in a masked LM, and not used in the mean of the tokens.
    assert not unexpected and all(name.startswith("pooler.") for name in missing), (missing, unexpected)
    if trainer.is_world_process_zero():
        encoder.save(str(Path(training.output_dir) / "sentence_encoder"))
        if before is not None:
            print(f"STS-B: {before:.2f} -> {correlation(encoder, arguments.stsb_file):.2f} %")


if __name__ == "__main__":
    with one_line_errors():
        main()
