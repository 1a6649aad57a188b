"""Continues a sentence encoder on own text, and saves it for sentence-transformers.

    python sentence_encoder.py --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --train_file train.txt \\
        --validation_file valid.txt --output_dir DIR --hc_weight 1 --max_steps 500
    truneg evaluate hub:sentence-transformers/all-MiniLM-L6-v2 DIR/sentence_encoder \\
        --user-dir user_dir_examples/yardsticks --task sts=STS-B/dev.tsv

SentenceTransformer("DIR/sentence_encoder") loads what comes out; the flags are those of train.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from train import parse, run
from transformers import AutoModelForMaskedLM

from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.files import new_folder


def main() -> None:
    """Trains a masked LM on the encoder, and puts its weights in place of those of the encoder."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise TrueNegError("sentence_encoder.py: needs a package; run pip install sentence-transformers") from None
    arguments, true_negatives, training = parse(__doc__)
    run(arguments, true_negatives, training)
    folder = Path(training.output_dir) / "sentence_encoder"
    if not training.should_save or folder.exists():
        return
    trust = {"trust_remote_code": arguments.trust_remote_code}
    encoder: Any = SentenceTransformer(arguments.model_name_or_path, device="cpu", **trust)
    trained = AutoModelForMaskedLM.from_pretrained(training.output_dir, **trust).base_model
    missing, unexpected = encoder[0].auto_model.load_state_dict(trained.state_dict(), strict=False)
    # The pooler is not there in a masked LM, and not used in the mean of the tokens.
    assert not unexpected and all(name.startswith("pooler.") for name in missing), (missing, unexpected)
    with new_folder(folder) as made:
        encoder.save(str(made))


if __name__ == "__main__":
    with one_line_errors():
        main()
