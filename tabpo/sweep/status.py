"""Where a running sweep stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SweepStatus:
    """Where a running sweep stands.

    Parameters
    ----------
    n_cells, n_done, n_failed : int
        Cells in all, stored (now or earlier), and failed.
    run_episodes, run_episodes_done : int
        Runs times episodes, in all and done, with the cells under way.
    run_episodes_now : int
        Those done since this call of ``run_experiment``.
    seconds : float
        Since the first episodes were played.
    """

    n_cells: int
    n_done: int
    n_failed: int
    run_episodes: int
    run_episodes_done: int
    run_episodes_now: int
    seconds: float

    @property
    def rate(self) -> float:
        """Run-episodes per second; 0 before any is done."""
        return self.run_episodes_now / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated time to the end; ``None`` before any episode is done."""
        left = self.run_episodes - self.run_episodes_done
        return left / self.rate if self.rate > 0 else None


Progress = Callable[[SweepStatus], None]
