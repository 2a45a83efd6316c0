"""Handing cells to an executor, a bounded number at a time, and surviving the death of a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait

from tabpo.sweep.cells import Cell
from tabpo.sweep.executors import Executor
from tabpo.sweep.worker import Computed

LOOK_EVERY = 0.5
"""Seconds between two looks at the workers' progress."""


def outcomes(
    executor: Executor, cells: Sequence[Cell], look: Callable[[], None]
) -> Iterator[tuple[Cell, Computed | BaseException]]:
    """Yield each cell with its numbers, or with the error that stopped it, as they come.

    Only as many cells as the executor asks for are handed over at a time. When a worker process dies, the
    cells under way are tried again one at a time, so that only the one that kills its worker fails.
    """
    waiting, suspects = deque(cells), deque[Cell]()
    running: dict[Future[Computed], Cell] = {}
    on_trial = False
    while waiting or suspects or running:
        on_trial = on_trial if running else bool(suspects)
        source, room = (suspects, 1) if on_trial else (waiting, executor.capacity)
        broken = _hand_over(executor, source, running, room)
        finished, _ = wait(running, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED)
        for future in finished:
            cell, outcome = running.pop(future), _outcome(future)
            broken |= isinstance(outcome, BrokenExecutor)
            if isinstance(outcome, BrokenExecutor) and not on_trial:
                suspects.append(cell)
            else:
                yield cell, outcome
        if broken:
            suspects.extend(running.values())
            running.clear()
            executor.restart()
        look()


def _hand_over(executor: Executor, source: deque[Cell], running: dict[Future[Computed], Cell], room: int) -> bool:
    """Submit cells while there is room; return whether the executor turned out to be broken."""
    try:
        while source and len(running) < room:
            running[executor.submit(source[0])] = source[0]
            source.popleft()
    except BrokenExecutor:
        return True
    return False


def _outcome(future: Future[Computed]) -> Computed | BaseException:
    try:
        return future.result()
    except Exception as error:  # whatever a cell raises is that cell's
        return error
