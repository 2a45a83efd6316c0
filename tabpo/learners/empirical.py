"""The empirical model of many runs, and what the learners share that are optimistic about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.confidence import VisitCounts
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Problem


@dataclass(frozen=True)
class OptimismParameters:
    """Parameters of learners that are optimistic about an empirical model.

    Attributes
    ----------
    failure_probability : float in (0, 1)
        delta, with which a bonus may be too small somewhere.
    bonus_scale : float or (R,), at least 0
        Multiplies the bonuses, or the radii of the confidence sets. The theory has 1, whose bonuses are vacuous until
        thousands of visits.
    """

    failure_probability: float = 0.1
    bonus_scale: float | list[float] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.failure_probability < 1:
            raise InvalidInputError(f"failure_probability must be in (0, 1), got {self.failure_probability!r}")


class EmpiricalModel:
    """What R runs have seen of their transitions, and heard of their losses.

    A trajectory is counted when it is seen, its losses when they arrive; without delays both happen at once.

    Parameters
    ----------
    problem : Problem
        Its sizes are read, not its transitions.

    Attributes
    ----------
    counts : VisitCounts
        n_h(s, a) and n_h(s, a, s') of the trajectories.
    loss_sums, loss_counts : (H, S, A, R)
        Sum and number of the losses that arrived.
    loss_counts_at_epoch : (H, S, A, R)
        Their number at the start of the run's epoch.
    """

    def __init__(self, problem: Problem) -> None:
        xp = problem.xp
        self.counts = VisitCounts(problem.mdp.shape, problem.n_runs, xp)
        self.loss_sums: Array = xp.zeros((*problem.mdp.shape, problem.n_runs))
        self.loss_counts: Array = xp.zeros_like(self.loss_sums)
        self.loss_counts_at_epoch: Array = xp.zeros_like(self.loss_sums)

    def observe(self, arrivals: Arrivals) -> bool:
        """Count the trajectories seen now and the losses that arrive now; return whether there were any."""
        for trajectory in arrivals.trajectories:
            self.counts.add(trajectory.states, trajectory.actions)
        for j in arrivals:
            once = namespace(j.losses).ones_like(j.losses)
            self.loss_sums = kernels.add_at_trajectory(self.loss_sums, j.states, j.actions, j.losses)
            self.loss_counts = kernels.add_at_trajectory(self.loss_counts, j.states, j.actions, once)
        return len(arrivals.trajectories) + len(arrivals) > 0

    def begin_epochs(self) -> Array:
        """Begin an epoch in the runs where the visits of an (h, s, a), or its losses, have doubled; return which, (R,).

        See :meth:`tabpo.confidence.VisitCounts.begin_epochs`, which looks at the visits only.
        """
        xp = namespace(self.loss_counts)
        doubled = self.loss_counts >= xp.maximum(2.0 * self.loss_counts_at_epoch, xp.ones_like(self.loss_counts))
        heard = xp.astype(xp.any(doubled, axis=(0, 1, 2)), self.counts.due.dtype)
        self.counts.due = xp.maximum(self.counts.due, heard)
        due: Array = self.counts.begin_epochs() > 0
        self.loss_counts_at_epoch = xp.where(due, self.loss_counts, self.loss_counts_at_epoch)
        return due

    @property
    def visits(self) -> Array:
        """``max(1, n_h(s, a))``, (H, S, A, R)."""
        xp = namespace(self.loss_counts)
        visits = xp.astype(self.counts.visits, self.loss_counts.dtype)
        return xp.maximum(visits, xp.ones_like(visits))

    @property
    def heard(self) -> Array:
        """``max(1, number of losses that arrived)``, (H, S, A, R)."""
        xp = namespace(self.loss_counts)
        return xp.maximum(self.loss_counts, xp.ones_like(self.loss_counts))

    @property
    def mean_losses(self) -> Array:
        """The means of the losses that arrived, (H, S, A, R); 0 where none did."""
        return self.loss_sums / self.heard

    def mean_next(self, h: int, values: Array) -> Array:
        """Return ``sum_s' n_h(s,a,s') / max(1, n_h(s,a)) values(s')``, (S, A, R), for next states' values (S, R)."""
        return kernels.empirical_mean(*self._step(h), values)

    def variance_next(self, h: int, values: Array, mean: Array) -> Array:
        """Return the variance of the next state's values around their mean, (S, A, R)."""
        return kernels.empirical_variance(*self._step(h), values, mean)

    def least_next(self, h: int, radius: Array, values: Array) -> Array:
        """Return the least mean of the next state's values over L1 balls of a radius (S, A, R), shape (S, A, R)."""
        return kernels.least_mean(*self._step(h), radius, values)

    def _step(self, h: int) -> tuple[Array, Array]:
        return self.counts.transitions[h, ...], self.counts.visits[h, ...]

    def optimistic_values(self, losses: Array, policy: Array) -> Array:
        """Return action values (H, S, A, R) of a policy: ``Q_h = max{0, losses_h + mean_next(h, V_{h+1})}``.

        ``V_h = <policy_h, Q_h>``, ``V_H = 0``.

        Parameters
        ----------
        losses : (H, S, A, R)
            Their estimates less bonuses: they may be negative.
        policy : (H, S, A, R)
        """
        xp = namespace(policy)
        values = xp.zeros_like(policy[0, :, 0, :])
        q_values: list[Array] = []
        for h in reversed(range(policy.shape[0])):
            q = losses[h, ...] + self.mean_next(h, values)
            q_values.append(xp.maximum(q, xp.zeros_like(q)))
            # A cumulative sum adds in order however many runs there are; a sum may not.
            values = xp.cumulative_sum(policy[h, ...] * q_values[-1], axis=1)[:, -1, :]
        return xp.stack(q_values[::-1])


def greedy_policy(q_values: Array) -> Array:
    """Return the policy of least action values, (H, S, A, R) both; ties go to the lowest action."""
    xp = namespace(q_values)
    actions = xp.arange(q_values.shape[2], device=getattr(q_values, "device", None))[:, None]
    return xp.astype(actions == xp.argmin(q_values, axis=2, keepdims=True), q_values.dtype)


def transition_bonus(problem: Problem, visits: Array, failure_probability: float) -> Array:
    """Return ``b^p = H sqrt(4 S ln(3 S A H T / delta') / n)``, the error of mean next values in [0, H], (H, S, A, R).

    ``T = H K``. It is H times the radius of an L1 ball (Shani et al. 2020; section 8d of the formulas page).

    Parameters
    ----------
    problem : Problem
    visits : (H, S, A, R)
        n, at least 1.
    failure_probability : float in (0, 1)
        delta'.
    """
    H, S, A = problem.mdp.shape
    n_total = H * problem.n_episodes  # T
    log_term = math.log(3 * S * A * H * n_total / failure_probability)
    bonus: Array = H * namespace(visits).sqrt(4 * S * log_term / visits)
    return bonus
