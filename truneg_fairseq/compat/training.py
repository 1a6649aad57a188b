"""Repairs of fairseq for a training's start, its checkpoints and its end.

``_check_before_the_start``
    Wrong options and missing inputs end in tracebacks of 40 to 90 lines, or are accepted and train nonsense.
``_decay_over_the_whole_run``
    fairseq-train gives polynomial_decay no --total-num-update where none is given, and ends in hydra's traceback. The
    default is --max-update, as fairseq-hydra-train takes it.
``_tell_a_workers_end``
    The process that has spawned workers adds its own traceback to a worker's one-line error, loses its exit code, and
    dies by signals that are meant for the workers.
``_write_checkpoints_at_once``
    Checkpoints are renamed before the disk has them, and copied in place: a kill or a full disk leaves a
    checkpoint_last.pt that cannot be read.
``_read_safely``
    Whether a checkpoint may run code is left to torch's default, which an environment variable changes.
``_start_safely``
    Two trainings write into one folder; a damaged checkpoint_last.pt ends every start with a traceback, and a missing
    one starts a new run over the old one's checkpoints. Nothing tells later what a run was made with.
``_keep_scores_of_runs_apart``
    The best score so far, and what --patience counts, are kept with functions: the next run of a process, as in hydra's
    multirun, takes them over, and a run that continues counts anew, also one that has stopped early.
``_count_the_time_of_this_run``
    The time of training, which is logged and which --stop-time-hours bounds, counts that of the checkpoint too that
    --finetune-from-model names.
``_refuse_an_unlogged_metric``
    A --best-checkpoint-metric that is not logged ends the run with a KeyError, in its first validation and unsaved.
``_refuse_too_long_samples``
    A validation sample that is longer than --tokens-per-sample ends the run with a traceback, in its first validation:
    what was trained since the last checkpoint is lost.
``_tell_a_missing_validation``
    A run that a signal has stopped in the validation at its end, by --max-epoch, continues to nothing, without a word.
``_share_memory_with_readers``
    The processes that read data share the memory of the training that has forked them, until one of them collects
    garbage: that writes to every object, and some 100 MiB are copied, hours after the start.
``_stop_on_signals``
    SIGTERM and SIGUSR1 end a training at once, and what was trained since the last checkpoint is lost.
``_add_nothing_to_an_ended_run``
    A training that has had its --max-update gets one more update with each new start.
``_end_readers_at_exit``
    The thread that reads batches ahead works on after the last update. Python aborts (exit code 134) where its own end
    meets that thread inside torch, also after a training that has saved all.
"""

from __future__ import annotations

import atexit
import copy
import gc
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, one_line_errors, reason
from ..training_folder import checkpoints, manifest, preflight, stopping
from ..training_folder.checkpoints import LAST
from ..training_folder.lock import FolderLock

logger = logging.getLogger(__name__)

_PATIENCE = "early_stop"  # of a checkpoint's extra_state
_SECONDS_FOR_A_BATCH = 10.0
_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


class _Run:
    """The training of this process."""

    def __init__(self) -> None:
        self.request = stopping.StopRequest()
        self.lock: FolderLock | None = None
        self.iterator: Any = None  # of the epoch
        self.metrics: Any = None  # those of training, while validation has its own
        self.trainer: Any = None  # whose first update has been looked at
        self.others_asked = False

    @property
    def shall_stop(self) -> bool:
        return self.others_asked or (self.request.number is not None and not self.has_workers)

    has_workers = False


_run = _Run()


def apply() -> None:
    """Applies them."""
    _check_before_the_start()
    _decay_over_the_whole_run()
    _tell_a_workers_end()
    _write_checkpoints_at_once()
    _read_safely()
    _start_safely()
    _keep_scores_of_runs_apart()
    _count_the_time_of_this_run()
    _refuse_an_unlogged_metric()
    _refuse_too_long_samples()
    _tell_a_missing_validation()
    _share_memory_with_readers()
    _stop_on_signals()
    _add_nothing_to_an_ended_run()
    _end_readers_at_exit()


def _check_before_the_start() -> None:
    from fairseq import tasks
    from fairseq.distributed import utils as distributed_utils
    from hydra.core.hydra_config import HydraConfig

    stock_call_main, stock_setup_task = distributed_utils.call_main, tasks.setup_task

    def call_main(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        with one_line_errors():
            if _is_training(main):
                preflight.check(cfg)
            return stock_call_main(cfg, main, **kwargs)

    def setup_task(cfg: Any, **kwargs: Any) -> Any:
        # hydra imports the package later than fairseq-train: call_main is past by then.
        whole = cfg._get_parent() if hasattr(cfg, "_get_parent") else None
        if HydraConfig.initialized() and whole is not None and "checkpoint" in whole and not kwargs:
            with one_line_errors():
                preflight.check(whole)
        return stock_setup_task(cfg, **kwargs)

    distributed_utils.call_main, tasks.setup_task = call_main, setup_task


def _is_training(main: Callable[..., Any]) -> bool:
    # fairseq's commands all call their function "main"; with python -m the module is "__main__".
    return Path(main.__code__.co_filename).parts[-2:] == ("fairseq_cli", "train.py")


def _decay_over_the_whole_run() -> None:
    from fairseq.dataclass import utils as dataclass_utils

    stock_override = dataclass_utils.override_module_args
    none = "lr_scheduler.total_num_update=null"  # in place of ${optimization.max_update}

    def override_module_args(args: Any) -> tuple[list[str], list[str]]:
        overrides, deletes = stock_override(args)
        return [override for override in overrides if override != none], deletes

    dataclass_utils.override_module_args = override_module_args


def _tell_a_workers_end() -> None:
    from fairseq.distributed import utils as distributed_utils
    from torch.multiprocessing import ProcessExitedException

    stock_call_main = distributed_utils.call_main

    def call_main(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        job = cfg.distributed_training
        if _is_training(main) and job.distributed_world_size > 1 and not job.distributed_no_spawn:
            stopping.forward_to_workers()
        try:
            return stock_call_main(cfg, main, **kwargs)
        except ProcessExitedException as error:
            raise SystemExit(stopping.told_failure(error.exit_code, error.error_index)) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None

    distributed_utils.call_main = call_main


def _write_checkpoints_at_once() -> None:
    from fairseq import checkpoint_utils

    stock_save, stock_manager = checkpoint_utils.torch_persistent_save, checkpoint_utils.PathManager

    def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> None:
        if async_write or not stock_manager.supports_rename(filename):
            stock_save(obj, filename, async_write=async_write)
            return
        with one_line_errors():
            checkpoints.save(obj, Path(filename))

    class PathManager(stock_manager):  # type: ignore[valid-type, misc]
        @staticmethod
        def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
            if not (stock_manager.supports_rename(src_path) and stock_manager.supports_rename(dst_path)):
                return bool(stock_manager.copy(src_path, dst_path, overwrite=overwrite))
            with one_line_errors():
                checkpoints.copy(Path(src_path), Path(dst_path))
            return True

    checkpoint_utils.torch_persistent_save, checkpoint_utils.PathManager = torch_persistent_save, PathManager


def _read_safely() -> None:
    from fairseq import checkpoint_utils

    stock_load = checkpoint_utils.load_checkpoint_to_cpu

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        if Path(path).is_file():
            checkpoints.require_safe(Path(path))
        return stock_load(path, *args, **kwargs)

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def _start_safely() -> None:
    from fairseq import checkpoint_utils
    from fairseq.distributed import utils as distributed_utils

    stock_load = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        with one_line_errors():
            chosen = _begin(cfg, trainer) if trainer.data_parallel_rank == 0 else None
            if trainer.data_parallel_world_size > 1:
                chosen = distributed_utils.broadcast_object(
                    chosen, src_rank=0, group=trainer.data_parallel_process_group, dist_device=trainer.device
                )
            if chosen is not None:
                cfg = copy.deepcopy(cfg)
                cfg.restore_file, cfg.finetune_from_model = chosen, None
            try:
                loaded = stock_load(cfg, trainer, **kwargs)
            except Exception as error:
                _tell_what_does_not_fit(error, cfg)
                raise
        _run.has_workers = trainer.data_parallel_world_size > 1
        _run.request.listen(several_workers=_run.has_workers)
        return loaded

    checkpoint_utils.load_checkpoint = load_checkpoint


def _keep_scores_of_runs_apart() -> None:
    from fairseq import checkpoint_utils
    from fairseq.trainer import Trainer

    stock_load, stock_save = checkpoint_utils.load_checkpoint, Trainer.save_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        scores, patience = vars(checkpoint_utils.save_checkpoint), _patience()
        scores.pop("best", None)
        patience.clear()
        extra_state, iterator = stock_load(cfg, trainer, **kwargs)
        if "best" in scores and extra_state is not None:  # fairseq has read it: the run goes on
            patience.update(extra_state.get(_PATIENCE, {}))
            if 0 < cfg.patience <= patience.get("num_runs", 0):
                logger.info(f"--patience {cfg.patience}: the run has stopped early before; a larger one continues it")
                trainer.cfg.optimization.max_epoch = -1  # fairseq reads it next, and trains no epoch
        return extra_state, iterator

    def save_checkpoint(self: Any, filename: Any, extra_state: dict[str, Any]) -> Any:
        patience = _patience()
        return stock_save(self, filename, {**extra_state, _PATIENCE: dict(patience)} if patience else extra_state)

    checkpoint_utils.load_checkpoint, Trainer.save_checkpoint = load_checkpoint, save_checkpoint


def _patience() -> dict[str, Any]:
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))  # the first with python -m
    functions = (getattr(module, "should_stop_early", None) for module in modules)
    return next((vars(function) for function in functions if function is not None), {})


def _count_the_time_of_this_run() -> None:
    from fairseq.trainer import Trainer

    stock_load = Trainer.load_checkpoint

    def load_checkpoint(self: Any, *args: Any, reset_meters: bool = False, **kwargs: Any) -> Any:
        extra_state = stock_load(self, *args, reset_meters=reset_meters, **kwargs)
        if reset_meters:
            self._previous_training_time = 0
        return extra_state

    Trainer.load_checkpoint = load_checkpoint


def _refuse_an_unlogged_metric() -> None:
    from fairseq.logging import metrics
    from fairseq.trainer import Trainer

    stock_train_step = Trainer.train_step
    left_out = {"ppl", "wps", "wpb", "bsz"}  # by the trainer, of what it returns

    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        logs = stock_train_step(self, *args, **kwargs)
        if logs is None or _run.trainer is self:
            return logs
        _run.trainer = self
        metric, task = self.cfg.checkpoint.best_checkpoint_metric, preflight.name_of(self.cfg, "task")
        names = (logs.keys() - {"sample_size"}) | (left_out & metrics.get_smoothed_values("train").keys())
        # Tasks of other kinds measure some things in validation only.
        if task in preflight.MASKED and not self.cfg.dataset.disable_validation and metric not in names:
            with one_line_errors():
                raise TrueNegError(
                    f"--best-checkpoint-metric {metric}: is not logged; expected one of {', '.join(sorted(names))}"
                )
        return logs

    Trainer.train_step = train_step


def _refuse_too_long_samples() -> None:
    from fairseq import checkpoint_utils
    from fairseq.tasks import FairseqTask
    from fairseq.utils import resolve_max_positions

    stock_load, stock_filter = checkpoint_utils.load_checkpoint, FairseqTask.filter_indices_by_size

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        if not trainer.cfg.dataset.skip_invalid_size_inputs_valid_test:
            most = resolve_max_positions(trainer.task.max_positions(), trainer.model.max_positions())
            for dataset in trainer.task.datasets.values():  # those of validation, so far
                require_fitting(trainer.task, dataset, most)
        return stock_load(cfg, trainer, **kwargs)

    def filter_indices_by_size(
        self: Any, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        if not ignore_invalid_inputs:
            require_fitting(self, dataset, max_positions)
        return stock_filter(self, indices, dataset, max_positions, ignore_invalid_inputs)

    def require_fitting(task: Any, dataset: Any, most: Any) -> None:
        if preflight.name_of(task, "cfg") in preflight.MASKED and most is not None:
            split = next((name for name, its in task.datasets.items() if its is dataset), "the data")
            with one_line_errors():
                preflight.check_samples(split, dataset.sizes, most)

    checkpoint_utils.load_checkpoint, FairseqTask.filter_indices_by_size = load_checkpoint, filter_indices_by_size


def _tell_a_missing_validation() -> None:
    from fairseq import checkpoint_utils

    stock_load = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        extra_state, iterator = stock_load(cfg, trainer, **kwargs)
        epochs, dataset = trainer.cfg.optimization.max_epoch, trainer.cfg.dataset
        if (
            extra_state is not None
            and extra_state.get("val_loss") is None
            and 0 < epochs < iterator.next_epoch_idx
            and (iterator.next_epoch_idx - 1) % dataset.validate_interval == 0
            and not dataset.disable_validation
            and trainer.get_num_updates() >= dataset.validate_after_updates
        ):
            logger.warning(
                f"--max-epoch {epochs}: has ended before, without its last validation: {LAST} has not been compared "
                "with checkpoint_best.pt; fairseq-validate measures it"
            )
        return extra_state, iterator

    checkpoint_utils.load_checkpoint = load_checkpoint


def _share_memory_with_readers() -> None:
    from fairseq import checkpoint_utils

    stock_load = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        loaded = stock_load(cfg, trainer, **kwargs)
        gc.freeze()  # what is there now stays until the end; the readers are forked next
        return loaded

    checkpoint_utils.load_checkpoint = load_checkpoint


def _begin(cfg: Any, trainer: Any) -> str | None:
    """Takes the folder of a run and says where the run continues, where fairseq would not find it."""
    folder = Path(cfg.save_dir)
    if not cfg.no_save:
        if _run.lock is not None:
            _run.lock.release()
        _run.lock = FolderLock(folder)
        for path in checkpoints.leftovers_in(folder):
            path.unlink(missing_ok=True)
        for line in manifest.add_start(folder, _facts(trainer)):
            logger.warning(line)
        if _starts_elsewhere(cfg) and (folder / LAST).exists():
            logger.warning(
                f"--restore-file {cfg.restore_file}: training starts from it, and {folder / LAST} will be overwritten; "
                "to continue from that, leave --restore-file out"
            )
    if cfg.restore_file != LAST or trainer.checkpoint_suffix or not folder.is_dir():
        return None
    if cfg.continue_once and not (folder / LAST).exists():
        return None  # fairseq takes it, whatever else the folder has
    given = [Path(cfg.finetune_from_model)] if cfg.finetune_from_model else []
    start, told = checkpoints.choose_start(folder, other_than=given)
    if start is None:
        return None
    logger.warning(told)
    return str(start)


def _starts_elsewhere(cfg: Any) -> bool:
    """Whether --restore-file names another checkpoint than the run's own last one."""
    return bool(cfg.restore_file != LAST and Path(cfg.restore_file).resolve() != (Path(cfg.save_dir) / LAST).resolve())


def _facts(trainer: Any) -> dict[str, Any]:
    cfg = trainer.cfg
    return manifest.start_facts(
        data=preflight.data_folders(cfg),
        table=getattr(getattr(trainer.get_criterion(), "pairs", None), "table", None),
        world_size=trainer.data_parallel_world_size,
        batches={
            "batch_size": cfg.dataset.batch_size,
            "max_tokens": cfg.dataset.max_tokens,
            "update_freq": list(cfg.optimization.update_freq),
        },
        names={group: preflight.name_of(cfg, group) for group in ("task", "model", "criterion", "optimizer")},
    )


def _tell_what_does_not_fit(error: Exception, cfg: Any) -> None:
    told = str(error)
    if told.startswith("Cannot resume training due to dataloader mismatch"):
        raise TrueNegError(
            f"--save-dir {cfg.save_dir}: its checkpoint stands behind the end of the epoch, as batches are larger now; "
            "give --batch-size, --max-tokens, --update-freq and the number of workers that the run had, or "
            "--reset-dataloader to begin with the first epoch"
        ) from None
    if told.startswith(("Criterion does not match", "Optimizer does not match", "Cannot load model parameters")):
        fresh = " To start from the weights alone: --finetune-from-model, and another --save-dir"
        raise TrueNegError(f"{reason(error)}{'' if cfg.finetune_from_model else fresh}") from None


def _stop_on_signals() -> None:
    from fairseq.logging import metrics
    from fairseq.trainer import Trainer

    stock_get_train_iterator, stock_begin_valid_epoch = Trainer.get_train_iterator, Trainer.begin_valid_epoch
    stock_train_step, stock_valid_step = Trainer.train_step, Trainer.valid_step
    stock_aggregate = Trainer._aggregate_logging_outputs

    def get_train_iterator(self: Any, *args: Any, **kwargs: Any) -> Any:
        _run.iterator = stock_get_train_iterator(self, *args, **kwargs)
        return _run.iterator

    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        logs = stock_train_step(self, *args, **kwargs)
        if _run.shall_stop:
            _save_and_leave(self)
        return logs

    def begin_valid_epoch(self: Any, epoch: int) -> Any:
        _run.metrics = metrics.state_dict()
        return stock_begin_valid_epoch(self, epoch)

    def valid_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        logs = stock_valid_step(self, *args, **kwargs)
        if _run.shall_stop:
            metrics.load_state_dict(_run.metrics)
            _save_and_leave(self)
        return logs

    def aggregate_logging_outputs(self: Any, logs: Any, *sums: Any, ignore: bool = False) -> tuple[Any, Any]:
        # One number more in the sum that the workers form anyway: all of them know of a signal in the same step.
        logs, (*sums, asked) = stock_aggregate(self, logs, *sums, int(_run.request.number is not None), ignore=ignore)
        _run.others_asked = bool(asked > 0)
        return logs, sums

    Trainer.get_train_iterator, Trainer.begin_valid_epoch = get_train_iterator, begin_valid_epoch
    Trainer.train_step, Trainer.valid_step = train_step, valid_step
    Trainer._aggregate_logging_outputs = aggregate_logging_outputs


def _add_nothing_to_an_ended_run() -> None:
    from fairseq.trainer import Trainer

    stock_train_step = Trainer.train_step

    def train_step(self: Any, samples: Any, *args: Any, **kwargs: Any) -> Any:
        updates, last = self.get_num_updates(), self.cfg.optimization.max_update
        if not 0 < last <= updates:
            return stock_train_step(self, samples, *args, **kwargs)
        logger.info(f"update {updates:,} of --max-update {last:,}: has ended before; it is validated and saved again")
        _run.iterator._cur_epoch_itr.n -= len(samples)  # it stands where it stood, should the run be prolonged
        return None  # as after an update that fairseq skips: it asks whether the run has ended

    Trainer.train_step = train_step


def _end_readers_at_exit() -> None:
    from fairseq.data.iterators import BackgroundConsumer

    def end_readers() -> None:
        readers = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]
        for reader in readers:
            reader._max_len = 0  # it ends after the batch that it reads
        deadline = time.monotonic() + _SECONDS_FOR_A_BATCH
        while time.monotonic() < deadline and any(reader.is_alive() for reader in readers):
            for reader in readers:
                with suppress(queue.Empty):  # what it has read is taken, as it waits for room
                    reader._queue.get(timeout=0.02)

    atexit.register(end_readers)


def _save_and_leave(trainer: Any) -> None:
    import torch
    from fairseq import checkpoint_utils

    cfg = copy.deepcopy(trainer.cfg.checkpoint)
    cfg.no_last_checkpoints = False
    checkpoint_utils.save_checkpoint(cfg, trainer, _run.iterator, None)
    if _run.has_workers:
        torch.distributed.barrier()
    anew = [f"--{name.replace('_', '-')}" for name in (*_RESETS, "no_save_optimizer_state") if getattr(cfg, name)]
    if _starts_elsewhere(cfg):
        anew.insert(0, "--restore-file")
    code = 1 if anew and not cfg.no_save else stopping.EXIT_STOPPED
    what = "saved; the same command continues"
    if cfg.no_save:
        what = "without saving (--no-save)"
    elif anew:
        what = f"saved; the same command would start anew, because of {', '.join(anew)}"
    stopping.leave(
        f"stopped by {stopping.name_of(_run.request.number)} after update {trainer.get_num_updates():,}, {what} (exit "
        f"code {code})",
        code,
    )
