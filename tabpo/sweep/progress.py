"""Showing a sweep's progress: a bar in a terminal, elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from tabpo.sweep.status import Progress, SweepStatus

LINE_EVERY = 60.0
"""Seconds between two lines where there is no terminal."""


@contextlib.contextmanager
def show_progress(console: Any = None) -> Iterator[Progress]:
    """Give the callback for ``run_experiment(progress=...)``.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to show it; standard error by default.
    """
    from rich.console import Console

    console = console or Console(stderr=True)
    if console.is_terminal:
        with _bar(console) as tell:
            yield tell
    else:
        yield _Lines(console)


@contextlib.contextmanager
def _bar(console: Any) -> Iterator[Progress]:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(bar_width=14),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[told]}"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("sweep", total=None, told="")

        def tell(status: SweepStatus) -> None:
            bar.update(task, total=status.run_episodes, completed=status.run_episodes_done, told=summary(status))

        yield tell


class _Lines:
    """A line at once, then one now and then, and one at the end."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self._next = 0.0
        self._over = False

    def __call__(self, status: SweepStatus) -> None:
        over = status.n_done + status.n_failed == status.n_cells
        if (over and not self._over) or (not over and time.monotonic() >= self._next):
            self._next = time.monotonic() + LINE_EVERY
            self._over = over
            self._console.print(summary(status), highlight=False, soft_wrap=True)


def summary(status: SweepStatus) -> str:
    """Return "12/40 cells · 1.24M of 5M run-episodes · 91.2k/s · 0:42 left"."""
    told = [f"{status.n_done}/{status.n_cells} cells"]
    if status.n_failed:
        told.append(f"{status.n_failed} failed")
    told.append(f"{short(status.run_episodes_done)} of {short(status.run_episodes)} run-episodes")
    if status.rate > 0:
        told.append(f"{short(status.rate)}/s")
    if status.seconds_left and status.n_done + status.n_failed < status.n_cells:
        told.append(f"{duration(status.seconds_left)} left")
    return " · ".join(told)


def short(number: float) -> str:
    """Return a count in three digits: ``950``, ``1.24M``."""
    for unit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{suffix}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Return a time as hours, minutes and seconds: ``1:02:03`` or ``4:05``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
