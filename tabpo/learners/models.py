"""What a learner knows of the transitions: all, or what confidence sets say that it learns from trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tabpo import kernels
from tabpo.arrays import Array
from tabpo.confidence import ConfidenceSets, ConfidenceSettings
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Problem

RadiusName = Literal["delayed_uob_reps", "uob_reps", "dilated_bonuses", "uob_ftrl"]


class Model(Protocol):
    """What a learner asks about the transitions. Policies are (H, S, A, R)."""

    def occupancy_bounds(self, policy: Array) -> tuple[Array, Array]:
        """Return an upper and a lower bound (H, S, R) of the policy's state occupancy."""

    def occupancy_bounds_at(self, h: int, policy: Array, previous: Array | None) -> tuple[Array, Array]:
        """Return the bounds (S, R) at step ``h``, for which the policy is read at earlier steps only.

        ``previous`` is the upper bound at step h - 1; None at step 0.
        """

    def snapshot(self) -> Any:
        """Return what makes :meth:`bonus_values` refer to the transitions as they are known now."""

    def bonus_values(
        self, bonus: Array, policy: Array, dilation: float = 0.0, snapshot: Any = None
    ) -> tuple[Array, Array]:
        """Return a policy's action values (H, S, A, R) and state values (H + 1, S, R) for a bonus (H, S, A or 1, R).

        ``B_h(s,a) = b_h(s,a) + (1 + dilation) max_p sum_s' p(s'|s,a) <policy_{h+1}(s'), B_{h+1}(s')>``, the maximum
        over the transitions that were plausible at ``snapshot`` (that are now, if it is None).
        """

    def observe(self, arrivals: Arrivals) -> None:
        """Learn from the trajectories that became known."""

    @property
    def settings(self) -> dict[str, Any]:
        """What is to be reported with every result."""


class KnownTransitions:
    """The true transitions: both bounds are the occupancy itself, and nothing is left to learn."""

    def __init__(self, problem: Problem) -> None:
        self.transitions = kernels.prepare(problem.mdp.transitions, problem.xp)
        self.initial = problem.xp.asarray(problem.mdp.initial)
        self.first = self.initial[:, None] + problem.xp.zeros((problem.n_states, problem.n_runs))

    def occupancy_bounds(self, policy: Array) -> tuple[Array, Array]:
        """Return the state occupancy, twice."""
        occupancy = kernels.state_occupancy(self.transitions, self.initial, policy)
        return occupancy, occupancy

    def occupancy_bounds_at(self, h: int, policy: Array, previous: Array | None) -> tuple[Array, Array]:
        """Return the state occupancy at step ``h``, twice."""
        if previous is None:
            return self.first, self.first
        occupancy = kernels.next_occupancy(self.transitions, previous, policy, h - 1)
        return occupancy, occupancy

    def snapshot(self) -> None:
        """Return nothing: the transitions do not change."""

    def bonus_values(
        self, bonus: Array, policy: Array, dilation: float = 0.0, snapshot: None = None
    ) -> tuple[Array, Array]:
        """See :meth:`Model.bonus_values`; the true transitions are the only ones."""
        values: tuple[Array, Array] = kernels.q_values(self.transitions, bonus, policy, dilation)
        return values

    def observe(self, arrivals: Arrivals) -> None:
        """Learn nothing."""

    @property
    def settings(self) -> dict[str, Any]:
        """None."""
        return {}


class LearnedTransitions:
    """Confidence sets of the transitions, from the trajectories seen so far; the first state's distribution is known.

    Parameters
    ----------
    problem : Problem
    settings : ConfidenceSettings
    """

    def __init__(self, problem: Problem, settings: ConfidenceSettings) -> None:
        self.sets = ConfidenceSets(problem.mdp.shape, problem.n_runs, problem.n_episodes, settings, problem.xp)
        self.initial = problem.xp.asarray(problem.mdp.initial)

    def occupancy_bounds(self, policy: Array) -> tuple[Array, Array]:
        """Return the greatest and the least state occupancy over the sets in force."""
        return self.sets.occupancy_bounds(self.initial, policy)

    def occupancy_bounds_at(self, h: int, policy: Array, previous: Array | None) -> tuple[Array, Array]:
        """Return the greatest and the least state occupancy at step ``h``."""
        return self.sets.occupancy_bounds_at(h, self.initial, policy)

    def snapshot(self) -> Any:
        """Return the sets in force."""
        return self.sets.snapshot()

    def bonus_values(
        self, bonus: Array, policy: Array, dilation: float = 0.0, snapshot: Any = None
    ) -> tuple[Array, Array]:
        """See :meth:`Model.bonus_values`."""
        return self.sets.evaluate(bonus, policy, largest=True, dilation=dilation, snapshot=snapshot)

    def observe(self, arrivals: Arrivals) -> None:
        """Count the trajectories seen now (immediate counts) or those whose losses arrived (lagged counts)."""
        lagged = self.sets.settings.counts == "lagged"
        self.sets.observe(arrivals if lagged else arrivals.trajectories)

    @property
    def settings(self) -> dict[str, Any]:
        """The confidence settings."""
        return self.sets.settings.reported


@dataclass(frozen=True)
class TransitionParameters:
    """Parameters of learners that do with or without the transitions.

    Attributes
    ----------
    transitions : "known" or "unknown"
        Whether the learner is told the transitions. All others matter only if it is not.
    radius : str
        Radius of the confidence sets, a key of :data:`tabpo.confidence.RADII`.
    failure_probability : float in (0, 1)
        delta; ``1 / K^3`` if None.
    width_scale : float or (R,), at least 0
        Multiplies the radius. The theory has 1.
    bias_scale : float or (R,), at least 0
        Multiplies what the width of the occupancy bounds adds to the bonus. The theory has 1.
    refresh : "epoch" or "episode"
        When the sets follow the counts.
    counts : "immediate" or "lagged"
        Whether a trajectory is counted when it is seen, or when its losses arrive.
    """

    transitions: Literal["known", "unknown"] = "known"
    radius: RadiusName = "uob_ftrl"
    failure_probability: float | None = None
    width_scale: float | list[float] = 1.0
    bias_scale: float | list[float] = 1.0
    refresh: Literal["epoch", "episode"] = "epoch"
    counts: Literal["immediate", "lagged"] = "immediate"

    def __post_init__(self) -> None:
        if self.transitions not in ("known", "unknown"):
            raise InvalidInputError(f"transitions must be 'known' or 'unknown', got {self.transitions!r}")

    def model(self, problem: Problem) -> KnownTransitions | LearnedTransitions:
        """Return what the learner knows of the problem's transitions."""
        if self.transitions == "known":
            return KnownTransitions(problem)
        delta = max(problem.n_episodes, 2) ** -3.0 if self.failure_probability is None else self.failure_probability
        settings = ConfidenceSettings(
            radius=self.radius,
            failure_probability=delta,
            width_scale=self.width_scale,
            bias_scale=self.bias_scale,
            refresh=self.refresh,
            counts=self.counts,
        )
        return LearnedTransitions(problem, settings)
