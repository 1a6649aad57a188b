"""Small random Hugging Face models, the data that number their tokens, and both sides' models loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from truneg_fairseq import register
from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import BERT_TOKENS, FAIRSEQ_TOKENS
from truneg_fairseq.models.checkpoints import read_checkpoint, write_checkpoint
from truneg_fairseq.vocabulary import read_symbols

LINES = ["the cat sat on a mat .", "a big dog ran , and it saw the red house .", "cat ##s and dog ##s sat ##ing on it"]
WORDS = list(dict.fromkeys(" ".join(LINES).split()))
# The special tokens stand neither first nor together, so that no order but the tokens' own can be right.
TOKENS = ["[PAD]", *WORDS[:4], "[UNK]", "[SEP]", *WORDS[4:9], "[MASK]", "[CLS]", *WORDS[9:]]

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
SMALL: dict[str, Any] = dict(zip(_SIZES, (32, 2, 4, 48, 24), strict=True))
WIDE: dict[str, Any] = dict(zip(_SIZES, (48, 3, 2, 96, 40), strict=True))
PAIRS = ([24, 5, 11], [9, 0, 6])
"""Lengths of sequences, and of their first segments with its separator; 0 for one segment."""


def run_command(*argv: object) -> None:
    main(["convert", *map(str, argv)])


def write_dictionary(folder: Path, tokens: list[str]) -> Path:
    """dict.txt in an order of its own, so that the rows have to be found by token."""
    folder.mkdir(exist_ok=True)
    ordinary = sorted(set(tokens) - {*BERT_TOKENS.values(), *FAIRSEQ_TOKENS}, reverse=True)
    (folder / "dict.txt").write_text("".join(f"{token} 1\n" for token in ordinary))
    return folder


def randomize(model: Any, seed: int = 0) -> Any:
    """A model whose every parameter matters: no zero bias, no unit LayerNorm, no zero padding row."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            is_scale = "norm.weight" in name.lower()
            parameter.copy_(torch.empty_like(parameter).normal_(float(is_scale), 0.2, generator=generator))
    return model.eval()


def random_model(kind: str, seed: int = 0, tokens: list[str] = TOKENS, **settings: Any) -> Any:
    import transformers

    model_class = getattr(transformers, kind)
    sizes = {"vocab_size": len(tokens), **SMALL, **settings}
    if model_class.base_model_prefix == "roberta":
        pad = tokens.index("<pad>" if "<pad>" in tokens else "[PAD]")
        sizes["max_position_embeddings"] += pad + 1
        sizes = {"layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": pad, **sizes}
    if kind.startswith("Electra"):
        sizes = {"embedding_size": 16, **sizes}
    return randomize(model_class(model_class.config_class(**sizes)), seed)


def share_embeddings(generator: Any, discriminator: Any) -> None:
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())


def save(model: Any, folder: Path, tokens: list[str] = TOKENS) -> Path:
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    return folder


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_tensors(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Bit for bit: -0.0 is not 0.0."""
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype == torch.float32
        assert torch.equal(found[name].view(torch.int32), tensor.view(torch.int32)), name


def load_with_fairseq(checkpoint: Path, data: Path, **overrides: Any) -> Any:
    from fairseq import checkpoint_utils

    overrides["data"] = str(data)
    register()  # fairseq then reads checkpoints with weights_only
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], arg_overrides=overrides)
    return models[0].eval(), task


def hf_rows(tokens: list[str], symbols: list[str]) -> torch.Tensor:
    """Hugging Face's row of every fairseq id."""
    special = BERT_TOKENS if "[CLS]" in tokens else {}
    row_of = {token: row for row, token in enumerate(tokens)}
    return torch.tensor([row_of[special.get(symbol, symbol)] for symbol in symbols])


def with_heads(checkpoint: Path, data: Path, tensors: dict[str, torch.Tensor]) -> Path:
    """A checkpoint with the arguments of a converted one, and with more tensors."""
    known, settings = read_checkpoint(checkpoint), {"tokens_per_sample": SMALL["max_position_embeddings"]}
    output = checkpoint.with_name("with-heads.pt")
    write_checkpoint(output, {**known.state, **tensors}, known.model, data, task="masked_lm", settings=settings)
    return output


class Both:
    """A transformers model and a fairseq one on the same random sentences, padded on the right."""

    def __init__(self, data: Path, tokens: list[str], lengths: list[int], firsts: list[int] | None = None) -> None:
        self.symbols = read_symbols(data)
        self.rows = hf_rows(tokens, self.symbols)
        start, pad, separator = (self.symbols.index(symbol) for symbol in ("<s>", "<pad>", "</s>"))
        self.ids = torch.full((len(lengths), max(lengths)), pad)
        self.segments = torch.zeros_like(self.ids)
        generator = torch.Generator().manual_seed(7)
        for row, (length, first) in enumerate(zip(lengths, firsts or [0] * len(lengths), strict=True)):
            self.ids[row, :length] = torch.randint(3, len(self.symbols), (length,), generator=generator)
            self.ids[row, 0], self.ids[row, length - 1] = start, separator
            if first:
                self.ids[row, first - 1] = separator
                self.segments[row, first:length] = 1
        self.real = self.ids != pad

    def hf(self, model: Any, ids: torch.Tensor | None = None) -> Any:
        """transformers' outputs."""
        inputs = {"input_ids": self.rows[self.ids if ids is None else ids], "attention_mask": self.real.long()}
        if model.config.type_vocab_size > 1:
            inputs["token_type_ids"] = self.segments
        with torch.no_grad():
            return model(**inputs)

    def logits(self, model: Any) -> torch.Tensor:
        """Of transformers' masked LM at the real tokens, the columns in fairseq's order; shape (N, V)."""
        outputs = self.hf(model)
        logits = outputs["logits"] if "logits" in outputs else outputs["prediction_logits"]
        return logits[self.real][:, self.rows]

    def ours(self, model: Any, **options: Any) -> torch.Tensor:
        """fairseq's output at the real tokens."""
        with torch.no_grad():
            return model(self.ids, **options)[0][self.real]
