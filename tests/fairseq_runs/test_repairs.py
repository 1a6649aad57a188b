"""The package with and without fairseq."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from support.cli_runs import assert_one_line, training
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command, truneg
from support.translations import MODEL, TRAINING, write_translations

import truneg_fairseq


@pytest.mark.slow
def test_any_other_fairseq_is_refused_with_one_line_when_the_plugin_is_loaded():
    program = (
        "import fairseq, importlib.metadata as m; stock = m.version\n"
        "m.version = lambda name: '0.13.0' if name == 'fairseq-fixed' else stock(name)\n"
        "import truneg_fairseq"
    )
    result = run_command([sys.executable, "-c", program], check=False)
    assert_one_line(result, "found fairseq-fixed 0.13.0, expected fairseq-fixed 0.12.3.x; run: pip uninstall")


# Each repair's fault: a program that fails with fairseq alone, and the words of its failure.
FAULTS = {
    "options of translation_from_pretrained_bart": (
        "no attribute 'args'",
        """
import argparse
from fairseq.data import Dictionary
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task
assert Task(argparse.Namespace(langs="de"), Dictionary(), Dictionary()).args.langs == "de"
""",
    ),
    "classes in checkpoints": (
        "Weights only load failed",
        """
import argparse, io, torch
file = io.BytesIO()
torch.save({"args": argparse.Namespace()}, file)
file.seek(0)
torch.load(file)
""",
    ),
    "numpy's long": (
        "'compat'",
        """
import torch
from fairseq.data import TokenBlockDataset
TokenBlockDataset([torch.arange(4)] * 3, [4] * 3, 8, pad=1, eos=2, break_mode="eos")
""",
    ),
    "masks of later epochs": (
        "the masks of epoch 1 again",
        """
import torch
from fairseq.data import Dictionary, ListDataset
from fairseq.tasks import masked_lm
words = Dictionary()
mask = [words.add_symbol(str(number)) for number in range(51)][-1]
texts = ListDataset([torch.arange(4, 54)] * 3, [50] * 3)
masked, _ = masked_lm.MaskTokensDataset.apply_mask(texts, words, pad_idx=1, mask_idx=mask, seed=1)
reader = torch.utils.data.DataLoader(masked, num_workers=1, persistent_workers=True)
epochs = []
for epoch in (1, 2):
    masked.set_epoch(epoch)
    epochs.append(torch.cat(list(reader)))
assert not epochs[0].equal(epochs[1]), "the masks of epoch 1 again"
""",
    ),
    "fp32 copies": (
        "a rounded copy",
        """
import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
cfg = {"common": {"bf16": True, "fp16_scale_window": 1}, "optimizer": {"_name": "sgd", "lr": [0.1]}}
cfg["optimizer"] |= {"momentum": 0.0, "weight_decay": 0.0}
cfg = OmegaConf.create({**cfg, "optimization": {"update_freq": [1]}, "distributed_training": {}})
parameter = torch.nn.Parameter(torch.ones(3).bfloat16())
first, again = (FP16Optimizer.build_optimizer(cfg, [parameter]) for _ in range(2))
first.fp32_params[0].data += 1e-4  # as after small updates, which 16 bits round away
again.load_state_dict(first.state_dict())
assert again.fp32_params[0].equal(first.fp32_params[0]), "a rounded copy"
""",
    ),
    "DDP on CPU": (
        "device_ids",
        """
import tempfile, torch
from types import SimpleNamespace
from fairseq.models.distributed_fairseq_model import DistributedFairseqModel
meeting = f"file://{tempfile.mktemp()}"
torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
options = dict(tpu=False, ddp_backend="pytorch_ddp", device_id=0, broadcast_buffers=False, bucket_cap_mb=25)
options |= dict(find_unused_parameters=False, gradient_as_bucket_view=False, ddp_comm_hook="none")
args = SimpleNamespace(**options, heartbeat_timeout=-1)
DistributedFairseqModel(args, torch.nn.Linear(2, 2), None, torch.device("cpu"))
torch.distributed.destroy_process_group()
""",
    ),
    "torchrun on CPU": (
        "a job of its own",
        """
import os, socket, torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed.utils import call_main
from omegaconf import OmegaConf
with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = str(probe.getsockname()[1])
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port, WORLD_SIZE="1", RANK="0")
cfg = OmegaConf.structured(FairseqConfig())
cfg.common.cpu, cfg.model = True, None
def main(cfg):
    assert torch.distributed.is_initialized(), "a job of its own"
call_main(cfg, main)
""",
    ),
    "copies of checkpoints": (
        "half of a checkpoint",
        """
import contextlib, os, resource, tempfile
from fairseq import checkpoint_utils
os.chdir(tempfile.mkdtemp())
for name, content in (("new.pt", b"new" * 10**6), ("last.pt", b"old")):
    with open(name, "wb") as file:
        file.write(content)
resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))  # as on a full disk
with contextlib.suppress(OSError, SystemExit):
    checkpoint_utils.PathManager.copy("new.pt", "last.pt", overwrite=True)
assert open("last.pt", "rb").read() == b"old", "half of a checkpoint"
""",
    ),
    "batches that wait for room": (
        "a reader is left",
        """
import torch
from fairseq.data.iterators import BufferedIterator
class Batches:
    def __len__(self): return 10**9
    def __iter__(self): return (torch.stack([torch.ones(9)] * 9).sum() for _ in range(len(self)))
iterator = BufferedIterator(1, Batches())
next(iterator)
""",
    ),
}
FAULTS["batches inside torch"] = tuple(
    text.replace("(1, Batches", "(10**6, Batches") for text in FAULTS["batches that wait for room"]
)
AT_EXIT = """
import atexit, os, sys, threading
@atexit.register
def look():  # runs after what is registered later
    if any(type(thread).__name__ == "BackgroundConsumer" for thread in threading.enumerate()):
        print("a reader is left", file=sys.stderr, flush=True)
        os._exit(1)
import fairseq
"""


@pytest.mark.parametrize("name", FAULTS)
def test_each_repair_of_fairseq_is_needed_and_enough(name):
    fault, program = FAULTS[name]
    stock = run_command([sys.executable, "-c", f"{AT_EXIT}# fairseq_cli.train\n{program}"], check=False)
    assert stock.returncode != 0
    assert fault in stock.stderr
    run_command([sys.executable, "-c", f"{AT_EXIT}import truneg_fairseq  # fairseq_cli.train\n{program}"])


@pytest.mark.slow
def test_registering_twice_changes_nothing():
    program = (
        "import truneg_fairseq, fairseq\n"
        "truneg_fairseq.register(); from fairseq.distributed import utils; first = utils.call_main\n"
        "truneg_fairseq.register(); assert utils.call_main is first\n"
        "from fairseq.criterions import CRITERION_REGISTRY as registry; assert 'masked_lm_hc' in registry"
    )
    run_command([sys.executable, "-c", program])


def test_version():
    version = run_command(truneg("--version"), fresh=True).stdout
    assert version.split() == ["truneg_fairseq", truneg_fairseq.__version__]


@pytest.mark.parametrize(("tasks", "nodes", "spawns"), [(1, 1, True), (2, 2, True), (4, 2, False)])
def test_a_task_of_srun_that_trains_hands_no_signal_on(tasks, nodes, spawns, monkeypatch):
    from truneg_fairseq.fairseq_runs.repairs import _spawns_workers

    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", str(tasks))
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", str(nodes))
    assert _spawns_workers(SimpleNamespace(distributed_world_size=4, distributed_no_spawn=False)) == spawns


@pytest.mark.slow
def test_a_second_training_of_a_process_forgets_the_first(data_bin, tmp_path):
    """hydra's multirun: else the GPU would fill up."""
    program = f"""
import gc, weakref
import truneg_fairseq; truneg_fairseq.register()
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils
from fairseq_cli import train
from truneg_fairseq.fairseq_runs.fairseq_trainer import PluginTrainer
models, stock = [], PluginTrainer.__init__
def init(self, *given, **named):
    stock(self, *given, **named)
    models.append(weakref.ref(self._model))
PluginTrainer.__init__ = init
for number in range(2):
    flags = {[str(data_bin), *TINY_TRAINING, *TINY_MODEL]!r} + "--user-dir {PLUGIN} --max-update 1".split()
    flags += "--criterion masked_lm_true_neg --soft-targets uniform=0.1 --disable-validation".split()
    flags += ["--save-dir", f"{tmp_path}/{{number}}"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), input_args=flags))
    utils.call_main(cfg, train.main)
gc.collect()
assert models[0]() is None
"""
    run_command([sys.executable, "-c", program])


# What fairseq trains without the plugin, it trains with the plugin: cases that its own tests/test_binaries.py has.

OLD_CRITERION = """
import sys
sys.argv[:1] = []
from fairseq.criterions import LegacyFairseqCriterion, register_criterion
@register_criterion("old")
class Old(LegacyFairseqCriterion):
    def forward(self, model, sample, reduce=True):
        scores, target = model(**sample["net_input"])[0], model.get_targets(sample, None)
        loss = scores.flatten(0, 1).logsumexp(1).sum() + 0 * target.sum()
        return loss, sample["ntokens"], {"loss": loss.data, "sample_size": sample["ntokens"]}
    @staticmethod
    def reduce_metrics(logs):
        pass
from fairseq_cli.train import cli_main
cli_main()
"""


def test_a_criterion_without_a_dataclass(tmp_path):
    """It gets a Namespace as its configuration, as composite_loss, sentence_ranking and those of examples/rxf do."""
    data = write_translations(tmp_path / "data")
    task = ("--user-dir", PLUGIN, "--task", "translation", *MODEL, *TRAINING, "--save-dir", tmp_path / "run")
    command = fairseq_train(data, *task, "--criterion", "old", "--max-update", 1, "--disable-validation")
    run_command([sys.executable, "-c", OLD_CRITERION, "train", *command[3:]])
    assert (tmp_path / "run" / "checkpoint_last.pt").exists()


def test_a_checkpoint_to_restore_that_is_not_there_means_from_scratch(data_bin, tmp_path):
    for _ in range(2):  # the second one finds a checkpoint_last.pt, and says no more than the first
        result = run_command(
            training(data_bin, tmp_path, "--criterion", "masked_lm", "--max-update", 1, "--restore-file", "x.pt")
        )
        assert "No existing checkpoint found x.pt" in result.stdout
        assert "training starts from it" not in result.stdout
