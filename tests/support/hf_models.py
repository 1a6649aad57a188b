"""Small random masked LMs of transformers, a tokenizer for them, and their trainers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from support.convert_models import TOKENS, random_model, randomize, share_embeddings

LINES = ["the cat sat on a mat .", "a big dog ran , and it saw the red house .", "the dog sat on the big cat"]
ROWS = len(TOKENS) + 3  # more embeddings than tokens, as ModernBERT has
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_POSITIONS = {"max_position_embeddings": 40, **_NO_DROPOUT}
PAD, MASK, CLS, SEP = (TOKENS.index(token) for token in ("[PAD]", "[MASK]", "[CLS]", "[SEP]"))
KINDS: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {**_SIZES, **_POSITIONS},
    "RobertaForMaskedLM": {**_SIZES, **_POSITIONS, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "DistilBertForMaskedLM": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
    | {"dropout": 0.0, "attention_dropout": 0.0},
    "ElectraForMaskedLM": {**_SIZES, **_POSITIONS, "embedding_size": 16},
    "ModernBertForMaskedLM": {**_SIZES, "max_position_embeddings": 40, "attn_implementation": "eager"},
    "DebertaForMaskedLM": {**_SIZES, **_POSITIONS},
    "DebertaV2ForMaskedLM": {**_SIZES, **_POSITIONS},
}


def small_model(kind: str = "BertForMaskedLM", **settings: Any) -> Any:
    import transformers

    model_class = getattr(transformers, kind)
    sizes = {"vocab_size": ROWS, **KINDS[kind], **settings, "bos_token_id": CLS, "eos_token_id": SEP}
    config = model_class.config_class(pad_token_id=PAD, **sizes)
    model = randomize(model_class(config))
    with torch.no_grad():  # it predicts words, so that there are mistakes to excuse
        words = torch.tensor([row < len(TOKENS) and TOKENS[row].isalpha() for row in range(config.vocab_size)])
        model.get_output_embeddings().bias[~words] = -20.0
    return model


def electra_halves() -> tuple[Any, Any]:
    """A discriminator and a narrower generator with its embeddings."""
    settings: dict[str, Any] = {"pad_token_id": PAD, **_NO_DROPOUT}
    narrow: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    discriminator = random_model("ElectraForPreTraining", 1, **settings)
    generator = random_model("ElectraForMaskedLM", 2, **settings, **narrow)
    with torch.no_grad():  # it predicts words: padding that is sampled is padding to fairseq
        generator.generator_lm_head.bias[[not token.isalpha() for token in TOKENS]] = -30.0
    share_embeddings(generator, discriminator)
    return discriminator, generator


def small_electra() -> Any:
    """Both halves as one model."""
    from truneg_fairseq.hf import ElectraForReplacedTokens

    return ElectraForReplacedTokens.of(*electra_halves())


def small_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordPiece({token: row for row, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [("[CLS]", CLS), ("[SEP]", SEP)]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("mask", "pad", "cls", "sep", "unk")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def rows_of(*texts: str) -> list[dict[str, list[int]]]:
    tokenizer = small_tokenizer()
    return [{"input_ids": tokenizer(text)["input_ids"]} for text in texts]


def batch(every: int = 3) -> dict[str, torch.Tensor]:
    """The lines with every third word masked, and labels as DataCollatorForLanguageModeling gives them."""
    return _masked(rows_of(*LINES), lambda tokens: torch.arange(tokens.numel()).view_as(tokens) % every == 0)


def masked_batch(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """A collator that always masks the same words of a text, and none of one with "house"."""
    return _masked(
        [{"input_ids": row["input_ids"]} for row in rows],
        lambda tokens: (tokens % 2 == 0) & ~tokens.eq(TOKENS.index("house")).any(1, keepdim=True),
    )


def _masked(rows: list[dict[str, list[int]]], choose: Any) -> dict[str, torch.Tensor]:
    padded = small_tokenizer().pad(rows, return_tensors="pt")
    tokens = padded["input_ids"]
    masked = padded["attention_mask"].bool() & (tokens != CLS) & (tokens != SEP) & choose(tokens)
    return {**padded, "input_ids": tokens.masked_fill(masked, MASK), "labels": tokens.masked_fill(~masked, -100)}


def table_of_list(tsv: Path, vocabulary: Any) -> Path:
    """The synonym table of a list, beside it."""
    from truneg_fairseq.synonyms import SourceOptions, build_table, open_lexicon

    build_table(open_lexicon("tsv", SourceOptions(tsv=tsv)), vocabulary).save(tsv.with_suffix(".npz"))
    return tsv.with_suffix(".npz")


def options_of_list(tsv: Path, rows: int | None = ROWS) -> dict[str, Any]:
    """Options with the table of a list, for a model with so many rows."""
    from truneg_fairseq.hf import vocabulary_of

    table = table_of_list(tsv, vocabulary_of(small_tokenizer(), "wordpiece", rows))
    return {"synonym_table": str(table), "tokenization": "wordpiece"}


def table_of_mistakes(model: Any, inputs: dict[str, torch.Tensor], path: Path) -> dict[str, Any]:
    """Options with a table that excuses the mistakes that a model makes on a batch, all but the first."""
    with torch.no_grad():
        predicted = model(**{**inputs, "labels": None}).logits[..., : len(TOKENS)].argmax(-1)
    masked = inputs["labels"] != -100
    pairs = zip(inputs["labels"][masked].tolist(), predicted[masked].tolist(), strict=True)
    wrong = [(TOKENS[gold], TOKENS[token]) for gold, token in pairs if gold != token]
    path.write_text("".join(f"{gold}\t{token}\n" for gold, token in wrong[1:]), encoding="utf-8")
    return options_of_list(path, model.get_input_embeddings().num_embeddings)


def trainer(model: Any, folder: Path, true_negatives: Any = None, *, kind: Any = None, **others: Any) -> Any:
    """A trainer of the lines: ours, or of another class. ``others`` are its arguments and transformers'."""
    from transformers import DataCollatorForLanguageModeling, TrainingArguments

    from truneg_fairseq import hf

    is_electra = isinstance(true_negatives, hf.ElectraArguments)
    kind, ours = kind or (hf.ElectraTrainer if is_electra else hf.TrueNegativeTrainer), {}
    if issubclass(kind, hf.TrueNegativeTrainer):
        ours["true_negatives"] = true_negatives
    settings = {"per_device_train_batch_size": 2, "report_to": "none", "use_cpu": True, "logging_steps": 1}
    settings |= {"save_strategy": "no", "disable_tqdm": True, "output_dir": str(folder / "out")}
    names = {each.name for each in fields(TrainingArguments)} & others.keys()
    settings |= {name: others.pop(name) for name in names}
    rest = {
        "data_collator": DataCollatorForLanguageModeling(small_tokenizer(), mlm_probability=0.4),
        "train_dataset": rows_of(*LINES) * 2,
        "eval_dataset": rows_of(*LINES),
        "processing_class": small_tokenizer(),
    }
    return kind(model, TrainingArguments(**settings), **ours, **{**rest, **others})


def one_update(kind: str, folder: Path, arguments: dict[str, Any], **settings: Any) -> tuple[Any, Any]:
    """A trainer and its model after one update of plain gradient descent on four texts."""
    from truneg_fairseq import hf
    from truneg_fairseq.files import replacing_text
    from truneg_fairseq.hf import electra_trainer as electra

    is_electra = kind == "electra"
    model = small_electra() if is_electra else small_model(kind)
    words = [token for token in TOKENS if token.isalpha()]
    with replacing_text(folder / "own.tsv") as stream:  # two processes may write it
        stream.write("".join(f"{word}\t{','.join(words)}\n" for word in words))
    table = options_of_list(folder / "own.tsv", model.get_input_embeddings().num_embeddings)
    options = (hf.ElectraArguments if is_electra else hf.TrueNegativeArguments)(**{**table, **arguments})
    defaults = {"learning_rate": 0.1, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "optim": "sgd"}
    defaults |= {"max_steps": 1, "data_collator": masked_batch, "train_dataset": rows_of(*LINES, "a mat")}
    machine = trainer(model, folder, options, **{**defaults, **settings})
    with patch.object(electra, "sample_tokens", lambda logits, generator: logits.argmax(-1)):
        machine.train()
    return machine, model


def weights(machine: Any) -> dict[str, torch.Tensor]:
    """A copy of the weights of a trainer's model."""
    model = machine.accelerator.unwrap_model(machine.model)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], **tolerance: Any) -> None:
    """By name; to the bit with ``rtol=0, atol=0``."""
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name, **tolerance)


def losses(machine: Any) -> list[float]:
    """Those that a trainer has logged."""
    return [log["loss"] for log in machine.state.log_history if "loss" in log]


class Calls:
    """A callback that notes its events, and does at some of them what it is asked to."""

    def __init__(self, **then: Callable[..., None]) -> None:
        self.then, self.events = then, list[str]()

    def __getattr__(self, event: str) -> Callable[..., None]:
        if not event.startswith("on_"):
            raise AttributeError(event)

        def note(args: Any, state: Any, control: Any, **others: Any) -> None:
            self.events.append(event)
            if event in self.then:
                self.then[event](state=state, control=control, **others)

        return note


def stop_at(step: int) -> Calls:
    """Ends a training after so many updates."""
    return Calls(
        on_step_end=lambda state, control, **_: setattr(control, "should_training_stop", state.global_step >= step)
    )
