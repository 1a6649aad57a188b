"""The commands of README.md are commands, wherever they are given."""

from __future__ import annotations

import re
import shlex

from support.commands import PLUGIN, REPOSITORY
from support.trainings import parse

from truneg_fairseq.trainer.preflight import value_of

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_readmes_training_parses():
    command = re.search(r"\n(fairseq-train DATA-BIN .*?[^\\])\n", README, re.DOTALL).group(1)
    assert '--user-dir "$(truneg user-dir)"' in command, "a relative folder is there in one place only"
    words = shlex.split(command.replace("$(truneg user-dir)", str(PLUGIN)).replace("\\\n", " "))[1:]
    cfg = parse(words)
    assert value_of(cfg.task, "tokens_per_sample") == 512
    assert cfg.common.fp16
