"""What a learner is: the two methods that the simulation calls, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.mdp import TabularMDP
from tabpo.streams import Purpose, stream


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner is told before the first episode.

    Attributes
    ----------
    mdp : TabularMDP
        The model. A learner for unknown transitions reads its sizes only.
    n_episodes : int
        K.
    n_runs : int
        R, the runs that advance in lockstep.
    total_delay : int
        D, the sum over episodes of ``min(delay, K)``: a delay of K or more never arrives, whatever it is.
    max_delay : int
        The largest of ``min(delay, K)``.
    seed : int
    runs : tuple of int, length R
        Indices of the runs; see :meth:`stream`.
    best_policy : callable
        Returns the best fixed policy of all K episodes (H, S, A): for anchors in figures, not for learners.
    xp : namespace
        Array library of the policies.
    restart : int
        How often the learner began afresh, under doubling.
    """

    mdp: TabularMDP
    n_episodes: int
    n_runs: int
    total_delay: int
    max_delay: int
    seed: int = 0
    runs: tuple[int, ...] = ()
    best_policy: Callable[[], NDArray[np.float64]] | None = field(default=None, repr=False)
    xp: Any = field(default=np, repr=False)
    restart: int = 0

    @property
    def horizon(self) -> int:
        """H."""
        return self.mdp.horizon

    @property
    def n_states(self) -> int:
        """S."""
        return self.mdp.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.mdp.n_actions

    def stream(self, run: int) -> np.random.Generator:
        """Return the generator for the learner's own draws in run number ``run`` of this block (0 ... R-1)."""
        return stream(self.seed, Purpose.LEARNER, self.runs[run], self.restart)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States and actions of one episode, (H, R) integers each."""

    episode: int
    states: Array
    actions: Array


@dataclass(frozen=True, eq=False)
class Feedback:
    """What arrives of an episode once its delay is over.

    Attributes
    ----------
    episode : int
        j.
    states, actions : (H, R)
        The trajectory.
    losses : (H, R)
        Observed losses along it, in [0, 1].
    policy : (H, S, A, R)
        The acting policy of episode j, as the learner gave it.
    state_occupancy : (H, S, R)
        Its state occupancy under the true model. A learner for unknown transitions does not read it.
    notes : object
        What the learner's own ``notes(j)`` returned; None if it has no such method.
    loss_table : (H, S, A, 1) or (H, S, A, R), optional
        The mean losses of all actions, for learners with full information; None for all others.
    """

    episode: int
    states: Array
    actions: Array
    losses: Array
    policy: Array
    state_occupancy: Array
    notes: Any = None
    loss_table: Array | None = None


@dataclass(frozen=True)
class Arrivals(Sequence[Feedback]):
    """The feedback that arrives at the end of an episode, a sequence of :class:`Feedback`, oldest episode first.

    Attributes
    ----------
    feedback : tuple of Feedback
    trajectories : tuple of Trajectory
        The trajectories that become known now: the episode's own if trajectories are seen at once, those of the
        arriving episodes if they are delayed as well.
    """

    feedback: tuple[Feedback, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()

    def __len__(self) -> int:
        return len(self.feedback)

    def __iter__(self) -> Iterator[Feedback]:
        return iter(self.feedback)

    def __getitem__(self, index: Any) -> Any:
        return self.feedback[index]


class Learner(Protocol):
    """A learner plays R runs in lockstep. Nothing else is asked of a user's own class than these two methods.

    Its constructor takes the :class:`Problem` and, by keyword, its parameters. Optional attributes that the simulation
    looks for:

    - ``settings``, a dict of resolved parameters to store with the results;
    - ``returns_new_policies = True``, a promise that ``act`` returns policies (H, S, A, R) in float64 which are not
      written to later: it spares a copy of each, and their check at episodes that are not checkpoints;
    - ``notes(k)``, a method called after ``act(k)``: what it returns comes back with the feedback of episode k, and is
      dropped if there will be none. It is the place for what belongs to the acting policy, such as occupancy bounds;
    - ``full_information = True``, which asks for the losses of all actions with the feedback.
    """

    def act(self, k: int) -> Array:
        """Return the policy of episode ``k`` (0-based): (H, S, A, R), or (H, S, A) for all runs."""
        ...

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Take in the feedback that arrives at the end of episode ``k``."""
        ...


def notes_of(learner: Learner, k: int) -> Any:
    """Return what the learner wants back with the feedback of episode ``k``; None if it has no method for it."""
    notes = getattr(learner, "notes", None)
    return None if notes is None else notes(k)


def per_run(name: str, value: Any, problem: Problem, at_least: float = 0.0, positive: bool = False) -> Array:
    """Return a parameter as an array (R,), checked to be finite and at least ``at_least`` (or positive).

    Raises
    ------
    InvalidInputError
        Naming the parameter and the value.
    """
    try:
        array = np.array(value.get() if hasattr(value, "get") else value, dtype=np.float64)  # CuPy's copy to the host
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must be a number or one number per run, got {value!r}") from None
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] not in (1, problem.n_runs)):
        raise InvalidInputError(
            f"{name} must be a number or one number per run ({problem.n_runs}), got an array of shape {array.shape}"
        )
    bad = ~np.isfinite(array) | (array <= 0 if positive else array < at_least)
    if bad.any():
        asked = "positive" if positive else f"at least {at_least:g}"
        raise InvalidInputError(f"{name} must be finite and {asked}, got {array[bad].flat[0] if array.ndim else array}")
    return problem.xp.asarray(np.array(np.broadcast_to(array, (problem.n_runs,))))
