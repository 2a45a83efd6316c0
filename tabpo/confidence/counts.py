"""Visit counts of many runs, and their doubling epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabpo import kernels
from tabpo.arrays import Array, namespace


class VisitCounts:
    """How often each run was where, and which of them are due for a new epoch.

    Immediate counts are fed every trajectory when it is seen, at the end of its episode; lagged counts when its losses
    arrive, which keeps the policy in force at the arrival independent of the trajectory (DAPO specification, section
    3.1). Which it is depends on what the caller hands to :meth:`add`.

    A run is due for a new epoch once a visited (h, s, a) has ``n >= max(1, 2 n at the start of the epoch)``.

    Parameters
    ----------
    shape : (H, S, A)
    n_runs : int
        R.
    xp : namespace
        Array library.

    Attributes
    ----------
    transitions : int, (H, S, A, S, R)
        n_h(s, a, s'). After the last step no next state is seen: those of step H - 1 stay 0.
    visits : int, (H, S, A, R)
        n_h(s, a), the last step's included.
    at_epoch : int, (H, S, A, R)
        The visits at the start of the run's epoch.
    due : int, (R,)
        1 for the runs whose epoch is over.
    n_epochs : int, (R,)
        Epochs begun after the first one, in which nothing was seen yet.
    n_trajectories : int
        Trajectories counted in each run.
    """

    def __init__(self, shape: tuple[int, int, int], n_runs: int, xp: Any = np) -> None:
        n_steps, n_states, n_actions = shape
        self.transitions: Array = xp.zeros((n_steps, n_states, n_actions, n_states, n_runs), dtype=xp.int64)
        self.visits: Array = xp.zeros((n_steps, n_states, n_actions, n_runs), dtype=xp.int64)
        self.at_epoch: Array = xp.zeros((n_steps, n_states, n_actions, n_runs), dtype=xp.int64)
        self.due: Array = xp.zeros(n_runs, dtype=xp.int64)
        self.n_epochs: Array = xp.zeros(n_runs, dtype=xp.int64)
        self.n_trajectories = 0

    def add(self, states: Array, actions: Array) -> None:
        """Add one trajectory of each run, states and actions (H, R)."""
        self.transitions, self.visits, self.due = kernels.count_trajectory(
            self.transitions, self.visits, self.at_epoch, self.due, states, actions
        )
        self.n_trajectories += 1

    def begin_epochs(self) -> Array:
        """Begin a new epoch in the runs that are due; return which, int (R,)."""
        xp = namespace(self.visits)
        due = self.due
        self.at_epoch = xp.where(due > 0, self.visits, self.at_epoch)
        self.n_epochs = self.n_epochs + due
        self.due = xp.zeros_like(due)
        return due

    def centre(self) -> Array:
        """Return the empirical distributions ``n_h(s,a,s') / n_h(s,a)``, uniform where no next state was seen.

        Returns
        -------
        centre : (H, S, A, S, R)
        """
        xp = namespace(self.visits)
        followed = xp.sum(self.transitions, axis=3, keepdims=True)
        share = xp.astype(self.transitions, xp.float64) / xp.astype(
            xp.where(followed > 0, followed, xp.ones_like(followed)), xp.float64
        )
        return xp.where(followed > 0, share, 1.0 / self.transitions.shape[1])
