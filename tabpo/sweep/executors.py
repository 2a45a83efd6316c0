"""Where cells are computed, all behind futures: in this process, in local workers, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from tabpo.errors import InvalidInputError, MissingPartError, TabpoError
from tabpo.sweep.cells import Cell
from tabpo.sweep.worker import ONE_THREAD, Computed, compute, one_thread, pin_for_good

TELL_EVERY = 0.3
"""Seconds between two progress reports of a worker."""


class Executor(Protocol):
    """Computes cells."""

    @property
    def capacity(self) -> int:
        """How many cells it should be given at a time."""

    def submit(self, cell: Cell) -> Future[Computed]:
        """Begin, or queue, a cell."""

    def run_episodes(self) -> int:
        """Return how many run-episodes were reported since the last call, by cells finished or under way."""

    def restart(self) -> None:
        """Replace dead workers."""

    def close(self, now: bool = False) -> None:
        """Let the workers go; ``now`` abandons what they are at."""


class InProcess:
    """One cell after the other in this process."""

    capacity = 1

    def __init__(self, on_progress: Callable[[], None] | None = None) -> None:
        self._advanced = 0
        self._on_progress = on_progress

    def submit(self, cell: Cell) -> Future[Computed]:
        """Compute a cell before returning."""
        future: Future[Computed] = Future()
        try:
            with one_thread():
                future.set_result(compute(cell, self._advance))
        except Exception as error:
            future.set_exception(error)
        return future

    def _advance(self, run_episodes: int) -> None:
        self._advanced += run_episodes
        if self._on_progress is not None:
            self._on_progress()

    def run_episodes(self) -> int:
        """Return the progress since the last call."""
        advanced, self._advanced = self._advanced, 0
        return advanced

    def restart(self) -> None:
        """Nothing to restart."""

    def close(self, now: bool = False) -> None:
        """Nothing to close."""


class Local:
    """Local worker processes, one thread each.

    Parameters
    ----------
    n_workers : int
    """

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self.capacity = 2 * n_workers  # a finished worker finds its next cell waiting
        self._start()

    def _start(self) -> None:
        from loky import ProcessPoolExecutor
        from loky.backend import get_context

        self._reports = get_context("loky").SimpleQueue()
        self._pool = ProcessPoolExecutor(
            self._n_workers, initializer=_begin_worker, initargs=(self._reports, os.getpid()), env=ONE_THREAD
        )

    def submit(self, cell: Cell) -> Future[Computed]:
        """Queue a cell."""
        future: Future[Computed] = self._pool.submit(_compute_and_tell, cell)
        return future

    def run_episodes(self) -> int:
        """Return the progress since the last call."""
        advanced = 0
        while not self._reports.empty():
            advanced += self._reports.get()
        return advanced

    def restart(self) -> None:
        """Replace the workers after one of them died."""
        self.close(now=True)
        self._start()

    def close(self, now: bool = False) -> None:
        """Shut the workers down."""
        self._pool.shutdown(wait=True, kill_workers=now)


_reports: Any = None


def _begin_worker(reports: Any, parent: int) -> None:
    global _reports
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    pin_for_good()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this worker when its parent is gone: a killed sweep leaves no process behind."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _compute_and_tell(cell: Cell) -> Computed:
    pending, told_at = 0, time.monotonic()

    def advance(run_episodes: int) -> None:
        nonlocal pending, told_at
        pending += run_episodes
        if time.monotonic() - told_at >= TELL_EVERY:
            _reports.put(pending)
            pending, told_at = 0, time.monotonic()

    computed = compute(cell, advance)
    if pending:
        _reports.put(pending)
    return computed


class Dask:
    """The workers of a Dask cluster, which brings SLURM, Kubernetes and others with it.

    Files that a config names must lie where the cluster's workers see them under the same path.

    Parameters
    ----------
    scheduler : str or distributed.Client
        The scheduler's address, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    MissingPartError
        If Dask is not installed.
    InvalidInputError
        If no scheduler answers.
    """

    def __init__(self, scheduler: Any) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingPartError(
                "a scheduler needs Dask, which is not installed: pip install tabpo[cluster]"
            ) from None
        self._ours = not isinstance(scheduler, Client)
        try:
            self._client = Client(scheduler, timeout="10s") if self._ours else scheduler
        except (OSError, ValueError, TimeoutError) as error:
            raise InvalidInputError(f"no Dask scheduler answers at {scheduler!r}: {error}") from None
        self._executor = self._client.get_executor(pure=False)
        self._address = scheduler

    @property
    def capacity(self) -> int:
        """Twice the cluster's threads, as it grows and shrinks; at least two."""
        if self._client.status not in ("running", "connecting"):
            raise TabpoError(
                f"the connection to the Dask scheduler {self._address!r} is lost; stored cells stay valid, "
                "and the same command goes on from there"
            )
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(2, 2 * sum(worker["nthreads"] for worker in workers))

    def submit(self, cell: Cell) -> Future[Computed]:
        """Queue a cell."""
        future: Future[Computed] = self._executor.submit(_compute_remotely, cell)
        return future

    def run_episodes(self) -> int:
        """Return 0: a cluster's cells are heard of when they are done."""
        return 0

    def restart(self) -> None:
        """Nothing to do: the cluster looks after its workers."""

    def close(self, now: bool = False) -> None:
        """Cancel what has not begun and leave the cluster."""
        self._executor.shutdown(wait=not now)
        if self._ours:
            self._client.close()


def _compute_remotely(cell: Cell) -> Computed:
    pin_for_good()
    return compute(cell)
