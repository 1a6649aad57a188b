"""The same sentences, masks and options give the same loss, however a loop calls it and whatever wraps its model."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from functools import partial

import accelerate
import peft
import pytest
import torch
import transformers
from support.commands import REPOSITORY, run_command
from support.convert_models import TOKENS, save
from support.fairseq_twin import FairseqTwin
from support.hf_models import batch as batch_of_lines
from support.hf_models import small_model, small_tokenizer, table_of_mistakes, trainer
from support.losses import LOSSES, OF_A_MODEL, PAD, loss_of, tiny_batch, tiny_bert
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from truneg_fairseq import Alternatives, TrueNegativeLoss, hf, register_alternatives
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.objectives.passes import unwrap

OPTIONS = {**LOSSES, **OF_A_MODEL}


@pytest.fixture(scope="module")
def bert():
    return tiny_bert()


@pytest.fixture(scope="module")
def batch():
    return tiny_batch()


@pytest.fixture(scope="module")
def group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Own(nn.Module):
    """A module of a loop's own around a model, as Lightning has."""

    def __init__(self, model):
        super().__init__()
        self.net, self.norm = model, nn.LayerNorm(3)

    def forward(self, **inputs):
        return self.net(**inputs)


def adapted(model):
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["query"]))  # it adds 0 at first


def sharded(model):
    """As accelerate does it: each layer and the rest, given away after each forward pass."""
    for part in (*model.bert.encoder.layer, model):
        fully_shard(part, mesh=init_device_mesh("cpu", (distributed.get_world_size(),)), reshard_after_forward=True)
    return model


WRAPPERS = {
    "bare": lambda model: model,
    "DDP": nn.parallel.DistributedDataParallel,
    "DataParallel": nn.DataParallel,
    "own module": Own,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "PEFT": adapted,
    "DDP of a compiled own module": lambda model: nn.parallel.DistributedDataParallel(
        torch.compile(Own(model), backend="eager"), find_unused_parameters=True
    ),
    "FSDP2": sharded,
    "own module of PEFT": lambda model: Own(adapted(model)),
}


def picked(logits, labels):
    """The places of the masked positions, and the logits there."""
    places = labels.flatten().ne(-100).nonzero().squeeze(1)
    return places, logits.flatten(0, 1)[places]


def filled_up(logits, labels):
    """As many rows as a recorded step has: the last ones repeat the first, without a label."""
    places, _ = picked(logits, labels)
    places = torch.cat([places, places[:2]])
    own = labels.flatten()[places].index_fill(0, torch.arange(len(places) - 2, len(places)), -100)
    return logits.flatten(0, 1)[places], own, {"positions": places}


CALLS = {
    "sentences": lambda logits, labels: (logits, labels, {}),
    "flat": lambda logits, labels: (logits.flatten(0, 1), labels.flatten(), {}),
    "flat logits": lambda logits, labels: (logits.flatten(0, 1), labels, {}),
    "words in the middle": lambda logits, labels: (logits.transpose(1, 2), labels.int(), {}),
    "an output": lambda logits, labels: ({"logits": logits}, labels, {"weights": torch.ones_like(labels)}),
    "mask": lambda logits, labels: (picked(logits, labels)[1], labels, {"positions": labels.ne(-100)}),
    "places": lambda logits, labels: (
        picked(logits, labels)[1],
        labels[labels.ne(-100)],
        {"positions": picked(logits, labels)[0]},
    ),
    "places, filled up": filled_up,
    "label 0 ignored": lambda logits, labels: (logits, labels.clamp(min=0), {}),
}
MADE_WITH = {"label 0 ignored": {"ignore_index": 0}}
NOT_OF_STATES = ("words in the middle", "an output")


def outcome(name, model, batch, call, watches, **options):
    """The loss, the gradient of the embeddings (None under an adapter), the plain loss, and the rates."""
    loss_fn, given = loss_of(name, **options), {key: batch[key] for key in ("input_ids", "attention_mask")}
    hook = loss_fn.watch(model) if watches else None
    known = {} if watches else {**given, "model": model}
    model.zero_grad()
    head, states, by_states = unwrap(model).get_output_embeddings(), [], call.startswith("states")
    note = head.register_forward_pre_hook(lambda _, given: states.append(given[0])) if by_states else None
    logits = model(**given).logits
    if note is not None:
        note.remove()
    call_of = partial(loss_fn.of_hidden, weight=head.weight, bias=head.bias) if by_states else loss_fn
    rows, labels, more = CALLS[call.removeprefix("states, ")](states[0] if by_states else logits, batch["labels"])
    loss = call_of(rows, labels=labels, **known, **more)
    loss.sum().backward()
    gradients = [p.grad for key, p in model.named_parameters() if "word_embeddings" in key and p.grad is not None]
    with torch.no_grad():
        plain = call_of(rows, labels=labels, **known, **more)
    if hook is not None:
        hook.remove()
    gradients = [each.full_tensor() if hasattr(each, "full_tensor") else each.to_dense() for each in gradients]
    return loss.detach(), [each.clone() for each in gradients], plain, loss_fn.metrics()


def assert_outcome(found, expected, message):
    for one, other in zip(found[:3:2], expected[:3:2], strict=True):
        torch.testing.assert_close(one, other, msg=message)
    for one, other in zip(found[1], expected[1], strict=False):  # an adapter's embeddings have none
        torch.testing.assert_close(one, other, msg=message)
    assert found[3] == pytest.approx(expected[3], abs=1e-3), message


@pytest.fixture(scope="module")
def expected(bert, batch):
    """What each option gives of whole sentences and the bare model."""
    return {name: outcome(name, bert, batch, "sentences", False) for name in OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_rates_are_the_losses(name, expected):
    loss, _, plain, rates = expected[name]
    assert rates["objective"] == pytest.approx(loss.item(), abs=1e-3)
    assert rates["eval_mlm_loss"] == rates["mlm_loss"] == pytest.approx(plain.item(), abs=1e-3)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_wrapper_has_the_loss_of_the_bare_model(wrapper, bert, batch, expected, group):
    model = WRAPPERS[wrapper](copy.deepcopy(bert))
    for name in OPTIONS.keys() - ({"sr_word"} if "PEFT" in wrapper else {}):  # of frozen embeddings it is refused
        for call, watches in (("sentences", False), ("sentences", True), ("flat", True)):
            found = outcome(name, model, batch, call, watches)
            assert_outcome(found, expected[name], f"{name}, {call}, watched: {watches}")


@pytest.mark.parametrize("call", [*CALLS, *(f"states, {call}" for call in CALLS if call not in NOT_OF_STATES)])
@pytest.mark.parametrize("on_a_gpu", [False, True])
def test_every_call_has_the_same_loss(call, on_a_gpu, bert, batch, expected, monkeypatch):
    """On a GPU, and in a step that is recorded there, rows without a label are not left out."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: on_a_gpu)
    options = MADE_WITH.get(call.removeprefix("states, "), {})
    for name in OPTIONS.keys() - ({"sr_expected"} if call.startswith("states") else {}):  # which needs logits
        assert_outcome(outcome(name, bert, batch, call, False, **options), expected[name], name)
        if name != "sr_sent" and not call.startswith("states"):  # which has no loss for each position
            by_position = outcome(name, bert, batch, call, False, reduction="none", **options)
            total = by_position[0].sum() / batch["labels"].ne(-100).sum()
            torch.testing.assert_close(total, expected[name][0], msg=name)
            assert by_position[3] == pytest.approx(expected[name][3], abs=1e-3), name


@register_alternatives("same-length")
class SameLength(Alternatives):
    """A detector of a user's own."""

    reads, is_certain = frozenset(), True

    def __init__(self, setting):
        super().__init__()
        self.register_buffer("length", torch.tensor([len(word or "") for word in setting.words.words]))

    def accepts(self, batch, tokens, model):
        return self.length[batch.gold].eq(self.length[tokens]).float()


def in_a_loop(model, inputs, options, folder):
    loss_fn, read = TrueNegativeLoss.for_tokenizer(small_tokenizer(), **options), dict(inputs)
    labels = read.pop("labels")
    return loss_fn(model(**read).logits, labels, model=model, **read), loss_fn._sums[True]


def without_logits(model, inputs, options, folder):
    loss_fn, read, states = TrueNegativeLoss.for_tokenizer(small_tokenizer(), **options), dict(inputs), []
    labels, head = read.pop("labels"), model.get_output_embeddings()
    with head.register_forward_pre_hook(lambda _, given: states.append(given[0])):
        model(**read)
    loss = loss_fn.of_hidden(states[0], head.weight, labels, bias=head.bias, model=model, **read)
    return loss, loss_fn._sums[True]


def in_stock_trainer(model, inputs, options, folder):
    loss_fn = TrueNegativeLoss.for_tokenizer(small_tokenizer(), **options)
    machine = trainer(model, folder, kind=transformers.Trainer, compute_loss_func=loss_fn)
    watch = loss_fn.watch(model)
    loss = machine.compute_loss(model, dict(inputs), num_items_in_batch=inputs["labels"].ne(-100).sum())
    watch.remove()
    return loss, loss_fn._sums[True]


def in_our_trainer(model, inputs, options, folder):
    machine = trainer(model, folder, hf.TrueNegativeArguments(**options))
    return machine.compute_loss(model, dict(inputs)), machine._counts[True]


FRONT_ENDS = {
    "a loop": in_a_loop,
    "states": without_logits,
    "Trainer(compute_loss_func)": in_stock_trainer,
    "TrueNegativeTrainer": in_our_trainer,
}


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "RobertaForMaskedLM"])
@pytest.mark.parametrize(
    "options",
    [
        {"sr_word_weight": 0.5, "sr_sent_weight": 2.0},
        {"softmax_temperature": 2.0},
        {"soft_targets": "embedding=0.3"},
        {"soft_targets": "table:flat=0.1,uniform=0.1"},
        {"soft_targets": "teacher=0.3"},
        {"hc_detector": "table+embedding", "hc_threshold": 0.0},
        {"hc_detector": "table+embedding+context", "hc_threshold": 0.0, "soft_targets": "uniform=0.1"},
        {"hc_detector": "table+embedding+context", "hc_threshold": 0.0, "sr_sent_weight": 0.5},
        {"hc_detector": "same-length", "loss_truncation": 0.2},
    ],
    ids="+".join,
)
def test_every_front_end_has_the_loss_the_counts_and_the_gradient_of_the_fairseq_criterion(
    kind, options, tmp_path, wordnet
):
    """Each made as its users make it: of a tokenizer, of arguments, of binarized data. A masked word is kept."""
    model, inputs = small_model(kind, vocab_size=len(TOKENS)).train(), batch_of_lines()
    kept = tuple(inputs["labels"].ne(-100).nonzero()[1])
    inputs["input_ids"][kept] = inputs["labels"][kept]
    if options.get("soft_targets") == "teacher=0.3":
        teacher = small_model(vocab_size=len(TOKENS), num_hidden_layers=1)
        options = {**options, "teacher": str(save(teacher, tmp_path / "teacher"))}
    options = {**table_of_mistakes(model, inputs, tmp_path / "own.tsv"), "hc_weight": 1.0, **options}
    twin = FairseqTwin([model], hf.TrueNegativeArguments(**options), tmp_path)
    expected, log = twin(inputs)
    expected.backward()
    assert log["corrected"] > 0
    reads_logits = {"states"} if options.get("hc_detector") == "same-length" else set()  # a user's own may
    for name in FRONT_ENDS.keys() - reads_logits:
        model.zero_grad()
        loss, counts = FRONT_ENDS[name](model, inputs, options, tmp_path)
        loss.backward()
        torch.testing.assert_close(loss, expected, msg=name, check_dtype=False)
        shared = log.keys() & counts.keys() - {"ntokens"}
        found, wanted = ({key: float(values[key]) for key in shared} for values in (counts, log))
        assert found == pytest.approx(wanted, rel=1e-4), name
        gradient = model.get_input_embeddings().weight.grad
        gradient = gradient.to_dense() if gradient.is_sparse else gradient
        torch.testing.assert_close(gradient, twin.word_gradient(), rtol=1e-4, atol=1e-6, msg=name)


def test_four_micro_batches_of_accelerate_are_one_batch(bert, batch, expected):
    """accelerate divides each loss by their number, so it is multiplied by it; one of them has no masked token."""
    for name in OPTIONS.keys() - {"sr_sent", "truncation"}:  # whose terms are of a batch
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
        model = accelerator.prepare(copy.deepcopy(bert))
        loss_fn, items, total = loss_of(name), batch["labels"].ne(-100).sum(), 0.0
        parts = [{key: value[row : row + 1] for key, value in batch.items()} for row in range(2)]
        parts = [parts[0], {**parts[0], "labels": torch.full_like(parts[0]["labels"], -100)}, parts[1]]
        for part in [*parts, {**parts[1], "input_ids": parts[0]["input_ids"]}]:
            with accelerator.accumulate(model):
                given = {"input_ids": part["input_ids"], "attention_mask": part["attention_mask"]}
                loss = loss_fn(model(**given).logits, part["labels"], model=model, num_items=items, **given)
                accelerator.backward(loss * accelerator.gradient_accumulation_steps)
                total += loss.item()
        whole, gradients, _, _ = expected[name]
        assert total == pytest.approx(whole.item(), rel=1e-5), name
        torch.testing.assert_close(model.get_input_embeddings().weight.grad.to_dense(), gradients[0], msg=name)


PROCESSES = """
import sys
from pathlib import Path
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, sys.argv[2])
from support.losses import loss_of, tiny_batch, tiny_bert

distributed.init_process_group("gloo")
rank, kind, found = distributed.get_rank(), sys.argv[3], {}
for name in sys.argv[4:]:
    batch, model, loss_fn = tiny_batch(), tiny_bert(), loss_of(name)
    items = batch["labels"].ne(-100).sum() / 2
    if kind == "FSDP2":
        for part in (*model.bert.encoder.layer, model):
            fully_shard(part, reshard_after_forward=True)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    part = {key: value[rank : rank + 1] for key, value in batch.items()}
    labels = part.pop("labels")
    loss = loss_fn(model(**part).logits, labels, model=model, num_items=items, **part)
    loss.backward()
    gradients = {key.removeprefix("module."): value.grad for key, value in model.named_parameters()}
    gradient = gradients["bert.embeddings.word_embeddings.weight"]
    gradient = gradient.full_tensor() if kind == "FSDP2" else gradient
    found[name] = gradient, loss_fn.metrics()
loss_fn = loss_of("hc")
if rank == 0:  # the other one has no batch
    loss_fn(torch.zeros(3, 29), torch.tensor([4, 5, 6]))
assert loss_fn.metrics()["mlm_loss"] > 3
if rank == 0:
    torch.save(found, Path(sys.argv[1]))
distributed.barrier()
distributed.destroy_process_group()
"""
SHARED = ["plain", "hc", "embeddings", "corpus", "sr_word", "sr_sent"]


def of_two_processes(kind, folder):
    script, file = folder / "loop.py", folder / "found.pt"
    script.write_text(PROCESSES, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, "--standalone", script, file]
    run_command([*launch, REPOSITORY / "tests", kind, *SHARED])
    return torch.load(file, weights_only=True)


@pytest.mark.slow
def test_two_processes_are_one_batch_and_shards_are_whole(expected, tmp_path):
    """DDP and FSDP2; sentence-level regularization is a mean in each process, so it is compared between the two."""
    parallel, sharded = of_two_processes("DDP", tmp_path), of_two_processes("FSDP2", tmp_path)
    for name in SHARED:
        torch.testing.assert_close(sharded[name][0], parallel[name][0], msg=name)
        assert sharded[name][1] == pytest.approx(parallel[name][1]), name
        if name != "sr_sent":
            _, gradients, _, rates = expected[name]
            torch.testing.assert_close(parallel[name][0], gradients[0], msg=name)
            rates = {rate: value for rate, value in rates.items() if not rate.startswith("eval_")}
            assert parallel[name][1] == pytest.approx(rates, abs=1e-3), name


def test_the_trainer_takes_the_logits_of_a_sharded_model(group, tmp_path):
    """Of a weight that each process has a part of it can make none itself."""
    options = hf.TrueNegativeArguments(soft_targets="embedding=0.2", sr_word_weight=1.0, sr_sent_weight=1.0)
    found = []
    for wrap in (lambda model: model, sharded):
        model = wrap(small_model().train())
        loss = trainer(model, tmp_path, options).compute_loss(model, batch_of_lines())
        loss.backward()
        gradient = model.get_input_embeddings().weight.grad
        found.append((loss.detach(), gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient))
    torch.testing.assert_close(found[1], found[0])


def test_watching_keeps_all_inputs_of_the_watched_model_alone(batch):
    """Positional ones too; a copy of the model, as an average of weights is, is another model."""
    loss_fn, model = loss_of("sr_sent"), tiny_bert()
    hook = loss_fn.watch(model)
    average = copy.deepcopy(model)
    ids, mask, labels = (batch[name] for name in ("input_ids", "attention_mask", "labels"))
    segments, places = (ids > 8).long(), torch.arange(9).flip(0)[None]

    def loss_after(*given, **named):
        logits = model(*given, **named).logits
        average(ids.flip(1))
        return loss_fn(logits, labels)

    found = loss_after(ids, mask, segments, places)
    torch.testing.assert_close(
        found, loss_after(input_ids=ids, attention_mask=mask, token_type_ids=segments, position_ids=places)
    )
    with torch.no_grad():
        read = {"attention_mask": mask, "token_type_ids": segments, "position_ids": places}
        logits, original = model(ids, **read).logits, torch.where(labels != -100, labels, ids)
        filled = torch.where(labels != -100, logits.argmax(-1), ids)
        p, q = (model.bert(tokens, **read)[0].log_softmax(-1) for tokens in (filled, original))
        divergence = (p.exp() * (p - q)).sum(-1)[original != PAD].mean()
        plain = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels)
    torch.testing.assert_close(found.detach(), plain + 2.0 * divergence, rtol=1e-4, atol=1e-5)
    found.backward()
    assert model.bert.embeddings.position_embeddings.weight.grad is not None
    assert all(parameter.grad is None for parameter in average.parameters())

    file = io.BytesIO()
    for saved in (model, loss_fn):
        torch.save(saved, file)
        assert pickle.loads(pickle.dumps(saved)) is not None
    copied = copy.deepcopy(loss_fn)
    with pytest.raises(TrueNegError, match="needs input_ids"):
        copied(logits, labels)
    read = []
    model.bert.register_forward_pre_hook(lambda *given: read.append(given[2].get("attention_mask")), with_kwargs=True)
    loss_fn(model(ids, position_ids=places).logits, labels)
    assert read == [None] * 3, "packed sentences have no mask, and none is made of the padding"
    loss_fn.watch(average)  # another model takes the place of the first, which is let go
    assert not model._forward_pre_hooks and hook.model is None
    with pytest.raises(TrueNegError, match="the model was not called since"):
        loss_fn(logits, labels)
