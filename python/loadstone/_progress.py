"""Progress bars: tqdm where it is installed, else one line on a terminal."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from loadstone._core import Progress

Callback = Callable[[Progress], object]


def callback_of(progress: bool | Callback | None) -> Callback | None:
    """None and False: nothing. True: a bar. A callable: itself."""
    if progress is None or progress is False:
        return None
    if progress is True:
        try:
            bar = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            return _line if sys.stderr.isatty() else None
        return _Tqdm(bar)
    if not callable(progress):
        raise TypeError(f"progress: expected a bool or a callable, found {type(progress).__name__}")
    return progress


def bytes_text(count: float) -> str:
    """1500 → '1.50 kB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def line_text(update: Progress) -> str:
    """'load  50% 1.00 GB of 2.00 GB, 4.00 GB/s, 0.2 s left'."""
    rate = update.done_bytes / update.seconds if update.seconds > 0 else 0.0
    text = f"{update.stage} "
    if update.total_bytes:
        share = min(1.0, update.done_bytes / update.total_bytes)
        text += f"{share:4.0%} {bytes_text(update.done_bytes)} of {bytes_text(update.total_bytes)}"
    else:
        text += bytes_text(update.done_bytes)
    if rate:
        text += f", {bytes_text(rate)}/s"
        if update.total_bytes > update.done_bytes:
            text += f", {(update.total_bytes - update.done_bytes) / rate:.1f} s left"
    return text


def _line(update: Progress) -> None:
    end = "\n" if update.total_bytes and update.done_bytes >= update.total_bytes else ""
    sys.stderr.write("\r\x1b[K" + line_text(update) + end)
    sys.stderr.flush()


class _Tqdm:
    """One tqdm bar a stage."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None
        self._stage = ""

    def __call__(self, update: Progress) -> None:
        if self._bar is None or self._stage != update.stage:
            if self._bar is not None:
                self._bar.close()
            self._stage = update.stage
            self._bar = self._tqdm(
                total=update.total_bytes or None, desc=update.stage, unit="B", unit_scale=True, leave=True
            )
        self._bar.update(update.done_bytes - self._bar.n)
        if update.total_bytes and update.done_bytes >= update.total_bytes:
            self._bar.close()
            self._bar = None
