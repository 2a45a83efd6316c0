"""Running a sweep: the missing cells of an experiment are computed and stored, the others left alone."""

from __future__ import annotations

import os
import shlex
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

from tabpo.errors import TabpoError
from tabpo.mdp import positive_integer
from tabpo.sweep.cells import Cell, plan
from tabpo.sweep.check import check_parts
from tabpo.sweep.config import Experiment, load_config
from tabpo.sweep.executors import TELL_EVERY, Dask, Executor, InProcess, Local
from tabpo.sweep.provenance import revisions
from tabpo.sweep.results import Results, open_results
from tabpo.sweep.schedule import outcomes
from tabpo.sweep.status import Progress, SweepStatus
from tabpo.sweep.store import Store
from tabpo.sweep.worker import Computed, warm_up


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed, and why."""

    cell: Cell
    sentence: str


class FailedCellsError(TabpoError):
    """Some cells of a sweep could not be computed; all the others are stored.

    Parameters
    ----------
    failures : list of Failure
    results : Results
        What is there.
    """

    def __init__(self, failures: Sequence[Failure], results: Results) -> None:
        self.failures, self.results = list(failures), results
        lines = [f"  {failure.cell.described}: {failure.sentence}" for failure in failures[:10]]
        if len(failures) > 10:
            lines.append(f"  and {len(failures) - 10} more")
        folder = results.folder / "failed"
        super().__init__(
            f"{len(failures)} cell{'s' if len(failures) > 1 else ''} could not be computed, the others are "
            f"stored (details in {str(folder)!r}):\n" + "\n".join(lines)
        )


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; the sentence says what is stored and how to go on."""


def run_experiment(
    path_or_config: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
    output: str | os.PathLike[str],
    *,
    workers: int = 1,
    scheduler: Any = None,
    progress: Progress | None = None,
) -> Results:
    """Compute the cells of an experiment that ``output`` does not hold yet, and return its results.

    Parameters
    ----------
    path_or_config : path of a TOML file, dict of the same shape, or Experiment
        See :class:`tabpo.sweep.config.Experiment`.
    output : path
        The results' folder, made if it is not there. Nothing is written elsewhere.
    workers : int, at least 1
        Local processes of one thread each; one computes in this process. The numbers do not depend on it.
    scheduler : str or distributed.Client, optional
        A Dask scheduler's address: its workers compute instead.
    progress : callable, optional
        Called with a :class:`SweepStatus` now and then.

    Raises
    ------
    ConfigError
        If the experiment cannot be run as it is; nothing was computed.
    FailedCellsError
        If some cells failed; the others are stored.
    StoreError
        If the folder cannot be written; what is stored stays valid.
    SweepInterrupted
        On Ctrl-C; what is stored stays valid, and the same call goes on from there.
    """
    workers = positive_integer("workers", workers)
    experiment = load_config(path_or_config)
    cells = list({cell.hash: cell for cell in plan(experiment)}.values())
    store = Store(output)
    stored = store.done()
    missing = [cell for cell in cells if cell.hash not in stored]
    check_parts(experiment, missing)
    store.prepare(experiment.text, cells)
    sweep = _Sweep(cells, missing, store, progress, revisions(experiment.base_folder))
    if missing:
        _compute(sweep, workers, scheduler, experiment)
    results = open_results(store.folder)
    if sweep.failures:
        raise FailedCellsError(sweep.failures, results)
    return results


def _compute(sweep: _Sweep, workers: int, scheduler: Any, experiment: Experiment) -> None:
    executor: Executor | None = None
    try:
        executor = _executor(sweep, workers, scheduler)
        sweep.run(executor)
    except BaseException as error:
        if executor is not None:
            executor.close(now=True)
        if isinstance(error, KeyboardInterrupt):
            raise SweepInterrupted(sweep.how_to_go_on(experiment)) from None
        raise
    executor.close()


def _executor(sweep: _Sweep, workers: int, scheduler: Any) -> Executor:
    if scheduler is not None:
        return Dask(scheduler)
    warm_up()
    n_workers = min(workers, len(sweep.missing))
    return Local(n_workers) if n_workers > 1 else InProcess(sweep.tell)


class _Sweep:
    """The cells of one call of ``run_experiment``: what is missing, under way, done and failed."""

    def __init__(
        self,
        cells: Sequence[Cell],
        missing: Sequence[Cell],
        store: Store,
        progress: Progress | None,
        revision: Mapping[str, str],
    ) -> None:
        self.cells, self.store = cells, store
        # the longest first, so that the workers end together; otherwise the config's order
        self.missing = sorted(missing, key=lambda cell: -cell.run_episodes)
        self.failures: list[Failure] = []
        self._progress, self._revision = progress, revision
        self._n_done = len(cells) - len(missing)
        self._all = sum(cell.run_episodes for cell in cells)
        self._before = self._all - sum(cell.run_episodes for cell in missing)
        self._finished = self._reported = 0
        self._started = time.monotonic()
        self._executor: Executor | None = None

    def run(self, executor: Executor) -> None:
        self._executor = executor
        self.tell()
        for cell, outcome in outcomes(executor, self.missing, self.tell):
            if isinstance(outcome, Computed):
                self.store.save(cell, outcome.numbers, outcome.provenance | {"revisions": dict(self._revision)})
                self._n_done += 1
            else:
                self._fail(cell, outcome)
            self._finished += cell.run_episodes
            self.tell()

    def _fail(self, cell: Cell, error: BaseException) -> None:
        sentence = str(error) if isinstance(error, TabpoError) else f"{type(error).__name__}: {error}"
        if isinstance(error, BrokenExecutor):
            sentence = "the worker process died while computing it (killed, perhaps for want of memory)"
        self.failures.append(Failure(cell, sentence))
        self.store.save_failure(cell, sentence, "".join(traceback.format_exception(error)))

    def tell(self) -> None:
        if self._progress is None:
            return
        if self._executor is not None:
            self._count(self._executor.run_episodes())
        now = min(max(self._finished, self._reported), self._all - self._before)
        seconds = time.monotonic() - self._started
        counts = (len(self.cells), self._n_done, len(self.failures))
        self._progress(SweepStatus(*counts, self._all, self._before + now, now, seconds))

    def _count(self, run_episodes: int) -> None:
        """Add a report; the clock starts with the first, so that the rate does not count the workers' start."""
        if run_episodes and not self._reported and not self._finished:
            self._started = time.monotonic() - TELL_EVERY
        self._reported += run_episodes

    def how_to_go_on(self, experiment: Experiment) -> str:
        done = self.store.done()  # what is there: the interrupt may fall between a cell's storing and its counting
        n_stored = sum(cell.hash in done for cell in self.cells)
        stored = f"{n_stored} of {len(self.cells)} cells are stored in {str(self.store.folder)!r}"
        if experiment.path is None:
            return f"stopped: {stored}; call run_experiment again to go on"
        command = shlex.join(["tabpo", "run", str(experiment.path), "--output", str(self.store.folder)])
        return f"stopped: {stored}; to go on: {command}"
