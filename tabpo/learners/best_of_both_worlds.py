"""Best-of-both-worlds policy optimization (Dann, Wei, Zimmert, ICML 2023), with each of its three regularizers.

The constants are those derived on the formulas page (best of both worlds, sections 2.3 to 2.7): explicit, and of the
paper's rates. What differs between the regularizers is in :mod:`tabpo.learners.bobw_rates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tabpo import estimators, kernels
from tabpo.arrays import Array
from tabpo.learners.bobw_rates import (
    LogBarrierParameters,
    LogBarrierRates,
    RateParameters,
    Rates,
    ScheduleParameters,
    ShannonRates,
    TsallisRates,
)
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True, eq=False)
class Played:
    """What the feedback of an episode will need.

    Attributes
    ----------
    denominator : (H, S, R)
        d_t.
    bonus : (H, S, R), optional
        b_t^reg, if it does not depend on the trajectory.
    bias : (H, S, R), optional
        What multiplies ``1 - pi_t(a|s)`` in b_t^bias; None if that is 0.
    snapshot : object
        The transitions as they were known.
    """

    denominator: Array
    bonus: Array | None
    bias: Array | None
    snapshot: Any


class BestOfBothWorlds:
    """Follow the regularised leader at every state, with dilated bonuses; the regularizer is a subclass's.

    The box is section 2.1 of the formulas page, best of both worlds; its t is k + 1. With delayed feedback, for which
    there is no theorem, the estimator of an episode gets DAPO's ratio when it arrives, and the episode's bonus is
    subtracted with it.
    """

    Parameters: ClassVar[type[RateParameters]]
    make_rates: ClassVar[Any]
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = self.Parameters(**parameters)
        self.rates: Rates = self.make_rates(problem, self.parameters)
        self.model = self.parameters.model(problem)
        self.bias_scale = per_run("bias_scale", self.parameters.bias_scale, problem)
        # Without width the upper bound of the occupancy may be 0 where the trajectory went.
        may_vanish = self.parameters.transitions == "unknown" and not np.all(self.parameters.width_scale)
        per_run("exploration", self.rates.exploration, problem, positive=may_vanish)
        self.has_bias = self.parameters.transitions == "unknown" or self.rates.exploration > 0
        H, S, A = problem.mdp.shape
        self.xp = xp = problem.xp
        self.dilation = 1.0 / H
        self.steps_left = xp.asarray([float(H - h) for h in range(H)])[:, None, None]  # H - h(s)
        self.no_exploration = xp.zeros(problem.n_runs)
        self.losses = xp.zeros((H, S, A, problem.n_runs))  # L(s, .)
        self.policy = xp.full((H, S, A, problem.n_runs), 1.0 / A)
        self.largest_condition = xp.zeros(problem.n_runs)
        self.violated_until = xp.zeros(problem.n_runs)

    def act(self, k: int) -> Array:
        """Return pi_t, shape (H, S, A, R)."""
        # gamma_t = c / (c + t)
        gamma = self.rates.exploration / (self.rates.exploration + k + 1)
        policy, weight, upper, lower = self._leaders(gamma)
        while (bonus := self.rates.virtual_bonus(weight)) is not None:
            # A virtual episode: nothing is played, and L(s, .) <- L(s, .) - B(s, .)
            values, _ = self.model.bonus_values(bonus[:, :, None, :], policy, self.dilation)
            self._check_condition(k, policy, values)
            self.losses = kernels.accumulate(self.losses, values)
            policy, weight, upper, lower = self._leaders(gamma)
        bias = self.bias_scale * self.steps_left * (upper - lower + gamma) * weight if self.has_bias else None
        bonus = self.rates.advance(policy, self.losses, weight)
        self.played = Played(upper + gamma, bonus, bias, self.model.snapshot())
        self.policy = policy
        return policy

    def _leaders(self, gamma: float) -> tuple[Array, Array, Array, Array]:
        """Return pi_t, w_t(s) = 1/d_t(s) and the bounds of the state occupancy, (H, S, R); one step after the other."""
        policy = self.xp.empty_like(self.losses)
        weight: list[Array] = []
        upper: list[Array] = []
        lower: list[Array] = []
        for h in range(policy.shape[0]):
            # d_t(s) = upper_t(s) + gamma_t depends on pi_t at the steps before h only
            above, below = self.model.occupancy_bounds_at(h, policy, upper[-1] if upper else None)
            weight.append(kernels.inverse(above + gamma))
            # pi_t(.|s) = argmin_p <p, L(s, .)> + psi_t(p; s)
            policy[h, ...] = self.rates.leader(h, self.losses[h, ...], weight[-1])
            upper.append(above)
            lower.append(below)
        return policy, self.xp.stack(weight), self.xp.stack(upper), self.xp.stack(lower)

    def notes(self, k: int) -> Played:
        """Return what the feedback of episode ``k`` will need."""
        return self.played

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Take in the feedback that arrives, then the trajectories that became known."""
        for j in arrivals:
            played: Played = j.notes
            returns = estimators.returns_to_go(j.losses)
            # Qhat_t(s,a) = 1_t(s,a) L_t / (d_t(s) pi_t(a|s)), if delayed times pi_t / max(pi_t, pi in force)
            denominator, adapt = played.denominator, self.parameters.adapt and j.episode != k
            estimate = kernels.importance_weighted(
                returns, j.policy, self.policy, denominator, j.states, j.actions, self.no_exploration, adapt
            )
            # b_t(s,a) = b_t^reg(s) + (H - h) (1 - pi_t(a|s)) (upper - lower + gamma_t) / d_t
            bonus = self.rates.learn(j, returns)
            bonus = bonus[:, :, None, :] if played.bias is None else kernels.with_bias(bonus, played.bias, j.policy)
            # B_t(s,a) = b_t(s,a) + (1 + 1/H) max_p E_{s' ~ p} <pi_t(s'), B_t(s')>
            values, _ = self.model.bonus_values(bonus, j.policy, self.dilation, played.snapshot)
            self._check_condition(k, self.policy, values)
            # L(s, .) <- L(s, .) + Qhat_t(s, .) - B_t(s, .)
            gains = kernels.add_at_trajectory(values, j.states, j.actions, -estimate)
            self.losses = kernels.accumulate(self.losses, gains)
        self.model.observe(arrivals)

    def _check_condition(self, k: int, policy: Array, values: Array) -> None:
        """Note how large the bonus is beside what the regularizer bears (section 2.7, condition CB)."""
        rates = self.rates
        found = rates.condition * kernels.largest_step(values, policy, rates.step_size, rates.power)
        self.largest_condition = self.xp.maximum(self.largest_condition, found)
        self.violated_until = self.xp.where(found > 1.0, k + 1.0, self.violated_until)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters; the largest value that had to stay below 1 (CB), and how long it did not."""
        return {
            **self.rates.settings,
            "transitions": self.parameters.transitions,
            "largest_condition": self.largest_condition,
            "condition_violated_until": self.violated_until,
            **self.model.settings,
        }


class TsallisPO(BestOfBothWorlds):
    """Best-of-both-worlds policy optimization with Tsallis' entropy of q = 1/2."""

    Parameters = ScheduleParameters
    make_rates = TsallisRates


class ShannonPO(BestOfBothWorlds):
    """Best-of-both-worlds policy optimization with Shannon's entropy."""

    Parameters = ScheduleParameters
    make_rates = ShannonRates


class LogBarrierPO(BestOfBothWorlds):
    """Best-of-both-worlds policy optimization with the log-barrier, a rate for each action, and virtual episodes."""

    Parameters = LogBarrierParameters
    make_rates = LogBarrierRates
