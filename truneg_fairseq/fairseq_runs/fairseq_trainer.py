"""fairseq's Trainer with locking, signals, atomic saves and metrics.

``main`` of fairseq_cli.train looks ``Trainer`` up in its own module, so a subclass that is put there serves
fairseq-train, fairseq-hydra-train, torchrun and spawned workers. Each method names the fault that it repairs.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.trainer import Trainer
from torch import Tensor

from ..errors import TrueNegError, one_line_errors, reason
from ..flags import flag_of
from ..vocabulary import fingerprint
from . import saving as checkpoints
from . import stopping
from .folder import add_start, keep_lines, lock_folder, start_facts
from .preflight import data_folders
from .saving import LAST, VOCABULARY

logger = logging.getLogger(__name__)

_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
_UNFINISHED = "unfinished"  # of the extra_state of a checkpoint that a signal has asked for
_DOES_NOT_FIT = ("Criterion does not match", "Optimizer does not match", "Cannot load model parameters")


class PluginTrainer(Trainer):
    """The trainer of every run that is started with this package as ``--user-dir``."""

    measured: Path | None = None  # the folder of the run of this process, in its first worker
    request = stopping.REQUEST

    def __init__(self, cfg: Any, *args: Any, **kwargs: Any) -> None:
        """Takes the folder of the run.

        fairseq lets two trainings write into one folder, ends with a traceback where checkpoint_last.pt is damaged,
        starts anew over the old checkpoints where it is missing, and keeps nothing of what a run was made with.
        """
        super().__init__(cfg, *args, **kwargs)
        vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of the last run of this process (hydra's multirun)
        self._iterator: Any = None  # of the epoch
        self._another_worker_asked = False
        self._samples: Sequence[Any] = ()  # of the update
        self._logs: Any = None  # of the last update
        # After a signal: the "logs" of the last update, and whether fairseq has "written" them.
        self._unfinished: dict[str, Any] | None = None
        checkpoint = self.cfg.checkpoint
        self._given = (checkpoint.restore_file, checkpoint.finetune_from_model)
        with one_line_errors():
            self._check_positions()
            self._check_validation()
            start = self._enter_folder() if self.data_parallel_rank == 0 else None
        self._has_workers = bool(self.data_parallel_world_size > 1)
        if self._has_workers:
            start = distributed_utils.broadcast_object(
                start, src_rank=0, group=self.data_parallel_process_group, dist_device=self.device
            )
        if start is not None:  # until load_checkpoint
            checkpoint.restore_file, checkpoint.finetune_from_model = start, None

    def _check_positions(self) -> None:
        """fairseq drops samples that are longer than the model's positions: most of a masked LM's."""
        if isinstance(self.task, MaskedLMTask):
            length, positions = self.cfg.task.tokens_per_sample, self.get_model().max_positions()
            if isinstance(positions, int) and length > positions:  # other models may tell none, or several
                raise TrueNegError(
                    f"--tokens-per-sample {length}: the model has {positions} positions, and fairseq drops longer "
                    f"samples; give --tokens-per-sample {positions} or less, or --max-positions {length}"
                )

    def _check_validation(self) -> None:
        """fairseq finds a sample of validation that is too long only when it validates: an epoch would be lost."""
        given, cut = self.cfg.dataset, ", or cut it with --sample-break-mode none"
        if given.disable_validation or given.skip_invalid_size_inputs_valid_test:
            return
        positions = (self.task.max_positions(), self.get_model().max_positions(), given.max_tokens_valid)
        for split in self.task.datasets:  # the training's samples are not loaded yet
            samples = self.task.dataset(split)
            with data_utils.numpy_seed(self.cfg.common.seed):
                order = samples.ordered_indices()
            try:
                self.task.filter_indices_by_size(order, samples, utils.resolve_max_positions(*positions))
            except Exception as error:
                if not str(error).startswith("Size of sample"):
                    raise
                remedy = cut if isinstance(self.task, MaskedLMTask) else ""
                raise TrueNegError(f"--valid-subset {split}: {reason(error)}{remedy}") from None

    def _enter_folder(self) -> str | None:
        """The checkpoint to continue from, where fairseq would not find it."""
        cfg = self.cfg.checkpoint
        folder = Path(cfg.save_dir)
        PluginTrainer.measured = None
        if not cfg.no_save:
            lock_folder(folder)
            PluginTrainer.measured = folder
            checkpoints.remove_leftovers(folder)
            for line in add_start(folder, start_facts(self)):
                logger.warning(line)
            # Of a file that is not there fairseq says so itself, and starts from scratch.
            if self._starts_elsewhere and Path(cfg.restore_file).exists() and (folder / LAST).exists():
                logger.warning(
                    f"--restore-file {cfg.restore_file}: training starts from it, and {folder / LAST} will be "
                    "overwritten; to continue from that, leave --restore-file out"
                )
        if cfg.restore_file != LAST or self.checkpoint_suffix or not folder.is_dir():
            return None
        if cfg.continue_once and not (folder / LAST).exists():
            return None  # fairseq takes it, whatever else the folder has
        given = [Path(cfg.finetune_from_model)] if cfg.finetune_from_model else []
        start, why = checkpoints.choose_start(folder, other_than=given)
        if start is not None:
            logger.warning(why)
        return None if start is None else str(start)

    @property
    def _starts_elsewhere(self) -> bool:
        """Whether --restore-file names another checkpoint than the run's own last one."""
        given, last = self._given[0], Path(self.cfg.checkpoint.save_dir) / LAST
        return bool(given != LAST and Path(given).resolve() != last.resolve())

    def load_checkpoint(self, filename: str, *args: Any, reset_meters: bool = False, **kwargs: Any) -> Any:
        """Says in one line that the checkpoint belongs to another model.

        With --finetune-from-model fairseq counts the time of the pre-training as time of this run.
        """
        checkpoint = self.cfg.checkpoint
        checkpoint.restore_file, checkpoint.finetune_from_model = self._given
        try:
            extra_state = super().load_checkpoint(filename, *args, reset_meters=reset_meters, **kwargs)
        except Exception as error:
            if not str(error).startswith(_DOES_NOT_FIT):
                raise
            with one_line_errors():
                remedy = "To start from weights alone: --finetune-from-model"
                if Path(filename).parent == Path(checkpoint.save_dir):
                    remedy = "Choose another folder, or remove the checkpoints of this one"
                    filename = f"--save-dir {checkpoint.save_dir}: holds another training"
                elif checkpoint.finetune_from_model:
                    remedy = "Give the --arch and sizes of that model"
                raise TrueNegError(f"{filename}: {reason(error).rstrip('.')}. {remedy}") from None
        with one_line_errors():
            self._check_dictionary(filename, extra_state or {})
        if reset_meters:
            self._previous_training_time = 0
        given = checkpoint.finetune_from_model
        is_start = checkpoint.reset_dataloader or (given is not None and Path(filename) == Path(given))
        if extra_state is not None and not is_start:
            self._unfinished = extra_state.get(_UNFINISHED)
            if not reset_meters and not extra_state["train_iterator"]["iterations_in_epoch"]:
                metrics.load_state_dict(extra_state["metrics"])  # fairseq forgets what it has not logged yet
                if self._unfinished is None:
                    metrics.reset_meters("train")  # of the epoch before
        if self.measured is not None:
            keep_lines(self.measured, until=self.get_num_updates(), validated=self._unfinished is None)
        return extra_state

    def _check_dictionary(self, filename: str, extra_state: Mapping[str, Any]) -> None:
        """fairseq trains weights on with another dictionary of the same size: each row is another token's.

        A checkpoint that another program wrote does not tell its dictionary and is accepted.
        """
        for name, own in _dictionaries_of(self.task).items():
            found = extra_state.get(name, own)
            if found != own:
                data = ":".join(map(str, data_folders(self.cfg)))
                raise TrueNegError(
                    f"{filename}: was trained with another {name} (fingerprint {found[:12]}) than that of {data} "
                    f"({own[:12]}), so its embeddings belong to other tokens; binarize the text with the checkpoint's "
                    "dictionary. If both have the same tokens in another order: 'truneg convert CKPT.pt DIR', then "
                    f"'truneg convert DIR NEW.pt --data {data}'"
                )

    def get_train_iterator(self, epoch: int, *args: Any, **kwargs: Any) -> Any:
        """The start of the first epoch: what is in memory now stays until the end.

        Data workers share our memory copy-on-write. A full garbage collection touches every object and copies about
        100 MiB per worker, so freeze first.
        """
        is_first = self._iterator is None
        self._iterator = self._batches_of(1 if is_first else epoch, epoch, *args, **kwargs)
        if is_first:
            gc.unfreeze()  # of the last run of this process (hydra's multirun), or its model would stay
            gc.collect()
            gc.freeze()
            self.request.begin(several_workers=self._has_workers)
        return self._iterator

    def _batches_of(self, built_in: int, epoch: int, *args: Any, **kwargs: Any) -> Any:
        """fairseq forms batches once, with seed + epoch: a run that resumes in epoch 2 has others than an unbroken run,
        which keeps those of epoch 1. It would read some sentences twice, and others never.

        Data in several parts, and data whose batches are formed in each epoch, have those of the epoch in both.
        """
        split = self.cfg.dataset.train_subset
        if built_in == epoch or self.task.has_sharded_data(split):
            return super().get_train_iterator(epoch, *args, **kwargs)
        iterator = super().get_train_iterator(built_in, *args, **kwargs)  # its state sets the epoch
        # The processes that read data begin with that state, before fairseq tells the data which epoch it is.
        self.task.dataset(split).set_epoch(epoch)
        if self.task.dataset(split) in self.task.dataset_to_epoch_iter:
            return iterator
        return super().get_train_iterator(epoch, *args, **{**kwargs, "load_dataset": False})

    def _prepare_sample(self, sample: Any, is_dummy: bool = False) -> Any:
        """An id beyond the dictionary, of damaged data or of another dictionary, is an IndexError without a name, and
        on a GPU the end of the process.
        """
        tokens = sample.get("net_input", {}).get("src_tokens") if isinstance(sample, dict) else None
        if isinstance(tokens, Tensor) and (tokens.device.type, tokens.dtype) == ("cpu", torch.int64) and tokens.numel():
            own = None
            with contextlib.suppress(NotImplementedError, AttributeError, TypeError):  # tasks without a dictionary
                own = len(self.task.source_dictionary)
            with one_line_errors():
                if own is not None and (largest := int(tokens.max())) >= own:
                    raise TrueNegError(
                        f"{':'.join(map(str, data_folders(self.cfg)))}: has the id {largest:,}, but the dictionary "
                        f"{own:,} symbols; the data are damaged or of another dictionary; binarize them again"
                    )
        return super()._prepare_sample(sample, is_dummy)

    def begin_epoch(self, epoch: int) -> None:
        """Checks the model before the thread that reads data starts: a later exit may abort inside torch."""
        with one_line_errors():
            getattr(self.get_criterion(), "check_model", lambda _: None)(self.get_model())
        super().begin_epoch(epoch)

    def zero_grad(self) -> None:
        """fairseq's search for NaN, which begins here, ends in a StopIteration where an encoder gives a dict."""
        error = sys.exc_info()[1]
        if isinstance(error, FloatingPointError):
            print(
                f"truneg_fairseq: error: training stopped: {str(error).splitlines()[0].rstrip('.')} in update "
                f"{self.get_num_updates() + 1}; expected finite numbers; lower --lr, or use fp32 or bf16 in place of "
                "fp16",
                file=sys.stderr,
                flush=True,
            )
            sys.exit(stopping.EXIT_DIVERGED)
        super().zero_grad()

    def train_step(self, samples: Any, *args: Any, **kwargs: Any) -> Any:
        """Signals end fairseq at once, without a checkpoint; each new start of a run that has had its
        --max-update trains one update more.

        A run that a signal has stopped reads the batches of its last update again, and does with them what was due
        behind it: the line of the log, validation, checkpoints, the end of the epoch.
        """
        if self._unfinished is not None:
            last, self._unfinished, self._samples = self._unfinished, None, samples
            if last["logs"]:
                self._name_rates(last["logs"])
            return None if last["written"] else {}
        updates, last = self.get_num_updates(), self.cfg.optimization.max_update
        if 0 < last <= updates:
            logger.info(f"update {updates:,} of --max-update {last:,}: has ended before; validated and saved again")
            self._iterator._cur_epoch_itr.n -= len(samples)  # it stands where it stood, should the run be prolonged
            return None  # as after an update that fairseq skips: it asks whether the run has ended
        self._samples = samples
        if (objective := getattr(self.get_criterion(), "objective", None)) is not None and last > 0:
            objective.progress = updates / last
        try:
            logs = super().train_step(samples, *args, **kwargs)
        except (AssertionError, RuntimeError) as error:  # fairseq asks for a GPU after an overflow
            if not isinstance(error.__context__, OverflowError):
                raise
            with one_line_errors():
                raise TrueNegError(
                    "--fp16: a gradient has overflowed, which needs a GPU; train in fp32 or bf16"
                ) from None
        self._leave_if_asked(written=logs is None)
        return logs

    def valid_step(self, *args: Any, **kwargs: Any) -> Any:
        logs = super().valid_step(*args, **kwargs)
        self._leave_if_asked(written=True)
        return logs

    def _reduce_and_log_stats(self, logs: Any, sample_size: Any, grad_norm: Any = None) -> Any:
        if grad_norm is not None:
            self._logs = logs
        return super()._reduce_and_log_stats(logs, sample_size, grad_norm)

    def _name_rates(self, logs: Any) -> None:
        """fairseq's checkpoints have the sums of what is logged, and not the rates made of them: a line that is due
        before the next update has none.
        """
        self._logs = logs
        with metrics.aggregate(new_root=True) as fresh:
            self.task.reduce_metrics(logs, self.get_criterion())
        for meters in metrics.get_active_aggregators():
            for priority, _, name in fresh.priorities:
                if isinstance(fresh[name], MetersDict._DerivedMeter) and name not in meters:
                    meters.add_meter(name, fresh[name], priority)

    def _aggregate_logging_outputs(self, logs: Any, *sums: Any, ignore: bool = False) -> tuple[Any, Any]:
        """Adds a number to the sum that the workers form anyway: all of them know of a signal in the same step."""
        asked = self.request.number is not None
        logs, (*sums, asked) = super()._aggregate_logging_outputs(logs, *sums, int(asked), ignore=ignore)
        self._another_worker_asked = bool(asked > 0)
        return logs, sums

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> str | None:
        """fairseq renames a checkpoint before the disk has it: a kill leaves one that cannot be read.

        Where an epoch ends, it saves no checkpoint of the interval: --keep-interval-updates-pattern would miss it.
        """
        extra_state = {**extra_state, **_dictionaries_of(self.task)}
        if self._unfinished is not None:
            extra_state[_UNFINISHED] = self._unfinished
        if self.cfg.checkpoint.write_checkpoints_asynchronously:
            return super().save_checkpoint(filename, extra_state)
        if not self.should_save_checkpoint_on_current_rank:
            return None
        state = utils.move_to_cpu(self.state_dict())
        state["extra_state"].update(extra_state)
        with one_line_errors():
            checkpoints.save(state, Path(filename))
            every, updates = self.cfg.checkpoint.keep_interval_updates_pattern, self.get_num_updates()
            place, folder = extra_state.get("train_iterator"), Path(filename).parent  # crash.pt has no place
            is_kept = every > 0 and updates % every == 0 and not any(folder.glob(f"checkpoint_*_{updates}.pt"))
            is_kept &= _UNFINISHED not in extra_state
            if place is not None and is_kept:
                checkpoints.copy(Path(filename), folder / f"checkpoint_{place['epoch']}_{updates}.pt")
        return str(Path(filename).absolute())

    def _leave_if_asked(self, *, written: bool) -> None:
        """Saves and ends after a signal to this process or, of several workers, to any.

        ``written``: whether fairseq has done with the logs of the update.
        """
        if not (self._another_worker_asked or (self.request.number is not None and not self._has_workers)):
            return
        cfg = copy.deepcopy(self.cfg.checkpoint)
        cfg.no_last_checkpoints, cfg.no_epoch_checkpoints, cfg.save_interval_updates = False, True, 0
        if self._samples:  # none in a run that had ended before
            self._iterator._cur_epoch_itr.n -= len(self._samples)
            self._unfinished = {"logs": utils.move_to_cpu(self._logs), "written": written}
        checkpoint_utils.save_checkpoint(cfg, self, self._iterator, None)
        if self._has_workers:
            torch.distributed.barrier()
        anew = [flag_of(name) for name in (*_RESETS, "no_save_optimizer_state") if getattr(cfg, name)]
        if self._starts_elsewhere:
            anew.insert(0, "--restore-file")
        code = 1 if anew and not cfg.no_save else stopping.EXIT_STOPPED
        what = "saved; the same command continues"
        if cfg.no_save:
            what = "without saving (--no-save)"
        elif anew:
            what = f"saved; the same command would start anew, because of {', '.join(anew)}"
        stopping.leave(
            f"stopped by {stopping.signal_name(self.request.number)} after update {self.get_num_updates():,}, {what} "
            f"(exit code {code})",
            code,
        )


def _dictionaries_of(task: Any) -> dict[str, str]:
    """Fingerprints for a checkpoint: dictionaries of one size may differ, and a translation has two."""
    found = {}
    for name, side in ((VOCABULARY, "source"), (f"target {VOCABULARY}", "target")):
        try:
            found[name] = fingerprint(getattr(task, f"{side}_dictionary").symbols)
        except (NotImplementedError, AttributeError):  # as fairseq's tasks say that they have none
            continue
    if found.get(VOCABULARY) == found.get(f"target {VOCABULARY}"):
        found.pop(f"target {VOCABULARY}", None)
    return found
