"""Small random masked LMs of transformers, a tokenizer for them, and a trainer."""

from __future__ import annotations

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
PAD = TOKENS.index("[PAD]")
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


def small_model(kind: str, **settings: Any) -> Any:
    import transformers

    model_class = getattr(transformers, kind)
    ends = {"bos_token_id": TOKENS.index("[CLS]"), "eos_token_id": TOKENS.index("[SEP]")}
    sizes = {"vocab_size": ROWS, **KINDS[kind], **settings, **ends}
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


def small_tokenizer(**changes: Any) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordPiece({token: row for row, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    ends = [(token, TOKENS.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    special = {"mask_token": "[MASK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{**special, "unk_token": "[UNK]", **changes})


def examples(tokenizer: Any) -> list[dict[str, list[int]]]:
    return [{"input_ids": tokenizer(line)["input_ids"]} for line in LINES]


def batch(tokenizer: Any, every: int = 3) -> dict[str, torch.Tensor]:
    """The lines with every third word masked, and labels as DataCollatorForLanguageModeling gives them."""
    padded = tokenizer(LINES, padding=True, return_tensors="pt")
    tokens = padded["input_ids"]
    words = padded["attention_mask"].bool() & (tokens != TOKENS.index("[CLS]")) & (tokens != TOKENS.index("[SEP]"))
    masked = words & (torch.arange(tokens.numel()).view_as(tokens) % every == 0)
    labels = torch.where(masked, tokens, -100)
    tokens = tokens.masked_fill(masked, TOKENS.index("[MASK]"))
    return {"input_ids": tokens, "attention_mask": padded["attention_mask"], "labels": labels}


def own_mistakes(model: Any, inputs: dict[str, torch.Tensor], path: Path) -> Path:
    """A list of synonyms that excuses the mistakes that a model makes on a batch, all but the first."""
    with torch.no_grad():
        predicted = model(**{**inputs, "labels": None}).logits[..., : len(TOKENS)].argmax(-1)
    masked = inputs["labels"] != -100
    pairs = zip(inputs["labels"][masked].tolist(), predicted[masked].tolist(), strict=True)
    wrong = [(TOKENS[gold], TOKENS[token]) for gold, token in pairs if gold != token]
    path.write_text("".join(f"{gold}\t{token}\n" for gold, token in wrong[1:]), encoding="utf-8")
    return path


def table_of_list(tsv: Path, vocabulary: Any) -> Path:
    """The synonym table of a list, beside it."""
    from truneg_fairseq.synonyms import SourceOptions, build_table, open_lexicon

    build_table(open_lexicon("tsv", SourceOptions(tsv=tsv)), vocabulary).save(tsv.with_suffix(".npz"))
    return tsv.with_suffix(".npz")


def table_of_mistakes(model: Any, inputs: dict[str, torch.Tensor], path: Path) -> dict[str, Any]:
    """Options with a table of :func:`own_mistakes`."""
    from truneg_fairseq.hf import vocabulary_of

    vocabulary = vocabulary_of(small_tokenizer(), "wordpiece", model.get_input_embeddings().num_embeddings)
    table = table_of_list(own_mistakes(model, inputs, path), vocabulary)
    return {"synonym_table": str(table), "tokenization": "wordpiece"}


def trainer(model: Any, folder: Path, true_negatives: Any = None, tokenizer: Any = None, **settings: Any) -> Any:
    from transformers import DataCollatorForLanguageModeling, TrainingArguments

    from truneg_fairseq.hf import TrueNegativeTrainer

    tokenizer = tokenizer or small_tokenizer()
    defaults = {"per_device_train_batch_size": 2, "report_to": "none", "use_cpu": True, "logging_steps": 1}
    settings = {**defaults, "save_strategy": "no", "disable_tqdm": True, **settings}
    return TrueNegativeTrainer(
        model,
        TrainingArguments(str(folder / "out"), **settings),
        true_negatives=true_negatives,
        data_collator=DataCollatorForLanguageModeling(small_tokenizer(), mlm_probability=0.4),
        train_dataset=examples(tokenizer) * 2,
        eval_dataset=examples(tokenizer),
        processing_class=tokenizer,
    )


def masked_batch(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """A collator that always masks the same words of a text, and none of one with "house"."""
    padded = small_tokenizer().pad([{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt")
    tokens = padded["input_ids"]
    words = padded["attention_mask"].bool() & (tokens != TOKENS.index("[CLS]")) & (tokens != TOKENS.index("[SEP]"))
    words &= (tokens % 2 == 0) & ~tokens.eq(TOKENS.index("house")).any(1, keepdim=True)
    masked = tokens.masked_fill(words, TOKENS.index("[MASK]"))
    return {**padded, "input_ids": masked, "labels": tokens.masked_fill(~words, -100)}


def one_update(
    kind: str, folder: Path, arguments: dict[str, Any], rows: Any = None, **settings: Any
) -> tuple[Any, Any]:
    """A trainer and its model after one update of plain gradient descent on four texts, or on rows."""
    import transformers

    from truneg_fairseq import hf
    from truneg_fairseq.files import replacing_text
    from truneg_fairseq.hf import electra
    from truneg_fairseq.synonyms import SourceOptions, build_table, open_lexicon

    is_electra = kind == "electra"
    model = hf.ElectraForReplacedTokens.of(*electra_halves()) if is_electra else small_model(kind)
    words = [token for token in TOKENS if token.isalpha()]
    with replacing_text(folder / "own.tsv") as stream:  # two processes may write it
        stream.write("".join(f"{word}\t{','.join(words)}\n" for word in words))
    vocabulary = hf.vocabulary_of(small_tokenizer(), "wordpiece", model.get_input_embeddings().num_embeddings)
    build_table(open_lexicon("tsv", SourceOptions(tsv=folder / "own.tsv")), vocabulary).save(folder / "own.npz")
    options = getattr(hf, "ElectraArguments" if is_electra else "TrueNegativeArguments")(
        **{"synonym_table": str(folder / "own.npz"), "tokenization": "wordpiece", **arguments}
    )
    rows = rows or [{"input_ids": small_tokenizer()(line)["input_ids"]} for line in (*LINES, "a mat")]
    defaults = {"learning_rate": 0.1, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "optim": "sgd"}
    defaults |= {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True, "max_steps": 1}
    machine = (hf.ElectraTrainer if is_electra else hf.TrueNegativeTrainer)(
        model,
        transformers.TrainingArguments(str(folder / "out"), logging_steps=1, **{**defaults, **settings}),
        true_negatives=options,
        data_collator=masked_batch,
        train_dataset=rows,
        processing_class=small_tokenizer(),
    )
    with patch.object(electra, "sample_tokens", lambda logits, generator: logits.argmax(-1)):
        machine.train()
    return machine, model


def stop_at(step: int) -> Any:
    """A callback that ends a training after so many updates."""
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            control.should_training_stop = state.global_step >= step

    return Stop()
