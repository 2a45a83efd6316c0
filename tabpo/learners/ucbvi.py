"""UCBVI, value iteration with upper confidence bounds (Azar, Osband, Munos, ICML 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.empirical import EmpiricalModel, OptimismParameters, greedy_policy
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class UCBVIParameters(OptimismParameters):
    """Parameters of :class:`UCBVI`.

    Attributes
    ----------
    bonus : "hoeffding" or "bernstein"
        The paper's Algorithm 3 or 4.
    known_rewards : bool
        Whether the learner is told the losses of all actions, as in the paper; those that arrived last count. If not,
        it has their means along its trajectories, and ``sqrt(2 L / N)`` joins the bonus.
    failure_probability : float in (0, 1)
        delta.
    bonus_scale : float or (R,), at least 0
        Multiplies all bonuses.
    """

    bonus: Literal["hoeffding", "bernstein"] = "bernstein"
    known_rewards: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bonus not in ("hoeffding", "bernstein"):
            raise InvalidInputError(f"bonus must be 'hoeffding' or 'bernstein', got {self.bonus!r}")


class UCBVI:
    """Plays greedily for upper confidence bounds of the optimal action values; rewards are 1 - loss.

    For stochastic losses: with T = H K and ``X = H S`` states, since each step has transitions of its own here, the
    regret is at most ``20 H^(3/2) L sqrt(X A K) + 250 H^2 X^2 A L^2`` (Hoeffding; L with another factor H in the
    logarithm) and ``30 H L sqrt(X A K) + 2500 H^2 X^2 A L^2 + 4 H^(3/2) sqrt(K L)`` (Bernstein) with probability
    1 - delta. Losses that change can make it linear: the policy is deterministic and the bounds never rise again.

    A trajectory counts when it is seen, a loss when it arrives; the policy is computed anew whenever either happens.
    """

    Parameters = UCBVIParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = UCBVIParameters(**parameters)
        self.full_information = self.parameters.known_rewards
        self.bonus_scale = per_run("bonus_scale", self.parameters.bonus_scale, problem)
        H, S, A = problem.mdp.shape
        n_states = H * S
        # L = ln(5 X A T / delta)
        self.log_term = math.log(5 * n_states * A * H * problem.n_episodes / self.parameters.failure_probability)
        self.gap_bound = 1e4 * H**3 * n_states**2 * A * self.log_term**2  # N' times (V - V*)^2 at a state
        self.model = EmpiricalModel(problem)
        self.loss_table: Array = problem.xp.zeros((H, S, A, 1))  # as long as none arrived
        self.q_values = problem.xp.full((H, S, A, problem.n_runs), float(H))
        self.policy = greedy_policy(-self.q_values)

    def act(self, k: int) -> Array:
        """Return the greedy policy, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Count, then compute the bounds and their greedy policy anew."""
        if self.model.observe(arrivals):
            if self.full_information and len(arrivals):
                self.loss_table = arrivals[-1].loss_table
            self.q_values = self.upper_bounds()
            self.policy = greedy_policy(-self.q_values)

    def upper_bounds(self) -> Array:
        """Return the optimistic action values, shape (H, S, A, R)."""
        xp = namespace(self.q_values)
        n_steps, n_states, _, n_runs = self.q_values.shape
        values = xp.zeros((n_states, n_runs))
        seen, visits = self.model.counts.visits > 0, self.model.visits
        rewards = 1.0 - (self.loss_table if self.full_information else self.model.mean_losses)
        reward_bonus = self.reward_bonus()
        q_values: list[Array] = []
        for h in reversed(range(n_steps)):
            mean = self.model.mean_next(h, values)
            bonus = self.bonus_scale * (self.bonus(h, visits[h, ...], values, mean) + reward_bonus[h, ...])
            # Q_h = min{previous Q_h, H, r_h + p_h V_{h+1} + b_h} where N > 0, else H
            q = rewards[h, ...] + mean + bonus
            previous = self.q_values[h, ...]  # at most H
            q_values.append(xp.where(seen[h, ...], xp.minimum(previous, q), previous))
            values = xp.max(q_values[-1], axis=1)
        return xp.stack(q_values[::-1])

    def bonus(self, h: int, visits: Array, values: Array, mean: Array) -> Array:
        """Return b_h, shape (S, A, R), for the next state's values (S, R) and their empirical means (S, A, R)."""
        xp = namespace(values)
        H, L = self.q_values.shape[0], self.log_term
        if self.parameters.bonus == "hoeffding":
            hoeffding: Array = 7 * H * L / xp.sqrt(visits)  # b = 7 H L / sqrt(N)
            return hoeffding
        # b = sqrt(8 L Var(V) / N) + 14 H L / (3 N) + sqrt(8 p m / N)
        variance = self.model.variance_next(h, values, mean)
        gaps = self.model.mean_next(h, self.squared_gaps(h + 1))
        bernstein: Array = xp.sqrt(8 * L * variance / visits) + 14 * H * L / (3 * visits) + xp.sqrt(8 * gaps / visits)
        return bernstein

    def squared_gaps(self, h: int) -> Array:
        """Return ``m(y) = min{1e4 H^3 X^2 A L^2 / N'_h(y), H^2}``, which bounds (V_h - V*_h)^2 at y, shape (S, R)."""
        xp = namespace(self.q_values)
        n_steps = self.q_values.shape[0]
        # After the last step no next state is counted: it does not matter what stands for it.
        visits = xp.astype(xp.sum(self.model.counts.visits[min(h, n_steps - 1), ...], axis=1), self.q_values.dtype)
        gaps = self.gap_bound / xp.maximum(visits, xp.ones_like(visits))
        return xp.minimum(gaps, xp.full_like(gaps, float(n_steps**2)))

    def reward_bonus(self) -> Array:
        """Return ``sqrt(2 L / N)`` for the number N of losses that arrived, (H, S, A, R); 0 for known rewards."""
        xp = namespace(self.q_values)
        if self.full_information:
            return xp.zeros_like(self.q_values)
        return xp.sqrt(2 * self.log_term / self.model.heard)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {
            "bonus": self.parameters.bonus,
            "bonus_scale": self.bonus_scale,
            "failure_probability": self.parameters.failure_probability,
        }
