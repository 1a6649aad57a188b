"""The fairseq criterion on converted weights, beside a trainer for transformers' models."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from truneg_fairseq.vocabulary import Vocabulary

from .convert_models import TOKENS, hf_rows, load_with_fairseq, run_command, save, write_dictionary
from .hf_models import table_of_list


class FairseqTwin:
    """A model of transformers (a masked LM, or ELECTRA's discriminator and generator) converted, with the criterion of
    the same options, its teacher too; the list of the synonym table lies beside the table. The folder is an empty one.
    """

    def __init__(self, models: Sequence[Any], arguments: Any, folder: Path) -> None:
        from truneg_fairseq.criterions.electra_criterion import Electra, ElectraConfig
        from truneg_fairseq.criterions.masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig

        data = write_dictionary(folder / "data", TOKENS)
        first, *second = [save(model, folder / f"model{number}") for number, model in enumerate(models)]
        generator = [part for path in second for part in ("--generator", path)]
        run_command(first, *generator, folder / "model.pt", "--data", data)
        self.model, task = load_with_fairseq(folder / "model.pt", data)
        given = {field.name: getattr(arguments, field.name) for field in fields(arguments)}
        chosen = {field.name: given[field.name] for field in fields(arguments) if given[field.name] != field.default}
        if table := chosen.get("synonym_table"):
            vocabulary = Vocabulary.from_symbols(task.source_dictionary.symbols, "wordpiece")
            list_ = shutil.copy(Path(table).with_suffix(".tsv"), folder / "twin.tsv")
            chosen["synonym_table"] = str(table_of_list(Path(list_), vocabulary))
        if teacher := chosen.get("teacher"):
            run_command(teacher, folder / "teacher.pt", "--data", data)
            chosen["teacher"] = str(folder / "teacher.pt")
        if second:
            self.criterion: Any = Electra(ElectraConfig(tpu=False, **chosen), task)
        else:
            self.criterion = MaskedLmTrueNeg(MaskedLmTrueNegConfig(tpu=False, **chosen), task)
        self.rows = hf_rows(TOKENS, task.source_dictionary.symbols)
        self._ids = self.rows.argsort()

    def __call__(self, inputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Any]]:
        """The loss of a batch as transformers has it, a mean, and what is logged."""
        labels, padding = inputs["labels"], self.criterion.padding_idx
        target = torch.where(labels != -100, self._ids[labels.clamp(min=0)], padding)
        lengths = inputs["attention_mask"].sum(1)
        net_input = {"src_tokens": self._ids[inputs["input_ids"]], "src_lengths": lengths}
        sample = {"net_input": net_input, "target": target, "ntokens": int(lengths.sum()), "nsentences": len(target)}
        loss, size, log = self.criterion(self.model, sample)
        return loss / size, log

    def word_gradient(self) -> Tensor:
        """The gradient of the word embeddings, in transformers' order of the rows."""
        encoder = getattr(self.model.encoder, "sentence_encoder", self.model.encoder)
        gradient = encoder.embed_tokens.weight.grad
        return (gradient.to_dense() if gradient.is_sparse else gradient)[self._ids]
