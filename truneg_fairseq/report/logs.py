"""JSON logs of stock fairseq (``--log-format json``), for runs that were made without this package."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from ..training_folder.metrics import TRAINING, Series

_JSON = re.compile(r'\{"epoch": .*\}')
_NOT_MEASURED = ("epoch", "update", "num_updates")


def read_json_log(path: Path) -> Series:
    """What it measured; lines that are cut are left out, and means of epochs."""
    series: Series = {}
    for line in _JSON.findall(path.read_text(encoding="utf-8", errors="replace")):
        try:
            content = {name: float(value) for name, value in json.loads(line).items()}
            prefix = next(name for name in content if name.endswith("num_updates")).removesuffix("num_updates")
        except (ValueError, TypeError, StopIteration):
            continue
        update, stage = int(content[f"{prefix}num_updates"]), prefix.rstrip("_") or TRAINING
        for name, value in content.items() if stage != "train" else ():
            bare = name.removeprefix(prefix)
            if name.startswith(prefix) and bare not in _NOT_MEASURED and math.isfinite(value):
                series.setdefault((stage, bare), {})[update] = value
    return series
