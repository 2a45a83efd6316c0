"""Learning rates and bonuses of best-of-both-worlds policy optimization: Tsallis, Shannon, log-barrier.

Sections 2.4 to 2.7 of the formulas page, best of both worlds (constants derived there, rates of the paper). T is the
number of episodes K, t the episode's number from 1, w_t(s) = 1 / d_t(s).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.models import TransitionParameters
from tabpo.learners.protocol import Feedback, Problem, per_run

MOST_VIRTUAL = 100_000
"""If more virtual episodes than these are due at once, a simulation stops with a sentence: it would seem to hang."""


@dataclass(frozen=True)
class RateParameters(TransitionParameters):
    """Parameters of best-of-both-worlds policy optimization, whatever the regularizer. None: the tuning's value.

    Attributes
    ----------
    tuning : "theory" or "practical"
        theory: the constants for which the regret bounds are proved; far too large to show logarithmic regret in a
        simulation. practical: heuristic scales for experiments, with which the bonus may exceed what the regularizer
        bears; the largest such excess, and its last episode, are reported.
    initial_rate : float or (R,), at least 0
        c_0, the inverse step size before the first episode; positive with the log-barrier.
    exploration : float, at least 0
        c in ``gamma_t = c / (c + t)``; 0 is none, 1 gives ``1 / (1 + t)``. Positive for confidence sets without width.
    bonus_scale : float or (R,), at least 0
        Multiplies the regularizer's part of the bonus; 0 is the ablation. ``bias_scale`` multiplies its bias part.
    adapt : bool
        With delayed feedback, whether the estimator has DAPO's ratio. There is no theorem for either.
    """

    tuning: Literal["theory", "practical"] = "theory"
    initial_rate: float | list[float] | None = None
    exploration: float | None = None
    bonus_scale: float | list[float] | None = None
    adapt: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tuning not in ("theory", "practical"):
            raise InvalidInputError(f"tuning must be 'theory' or 'practical', got {self.tuning!r}")
        c = self.exploration
        if c is not None and not (isinstance(c, Real) and 0 <= c < math.inf):
            raise InvalidInputError(f"exploration must be a number, finite and at least 0, got {c!r}")


@dataclass(frozen=True)
class ScheduleParameters(RateParameters):
    """Parameters with Tsallis' and Shannon's entropies, whose rates grow with ``sum_t w_t(s)``.

    Attributes
    ----------
    rate : float or (R,), positive
        Tsallis: c_1 in ``1/eta_t(s) = c_0 + c_1 H sqrt(sum_{tau <= t} w_tau(s))``. Shannon: kappa in
        ``1/eta_t - 1/eta_{t-1} = kappa w_t / sqrt(Y_{t-1} + M_t)``.
    indexing : "self_timed" or "paper"
        Whether the rate of episode t contains w_t, as in the derivation, or ends at w_{t-1}, as in the paper.
    """

    rate: float | list[float] | None = None
    indexing: Literal["self_timed", "paper"] = "self_timed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.indexing not in ("self_timed", "paper"):
            raise InvalidInputError(f"indexing must be 'self_timed' or 'paper', got {self.indexing!r}")


@dataclass(frozen=True)
class LogBarrierParameters(RateParameters):
    """Parameters with the log-barrier.

    Attributes
    ----------
    bonus_scale : float or (R,), at least 0
        5 in theory: it multiplies ``ln(A T) sum_a (1/eta_{t+1} - 1/eta_t)``, and 0.6 of it a virtual episode's bonus.
    virtual_episodes : bool
        Whether virtual episodes keep ``eta_t(s,a) / d_t(s)`` below ``1 / (21 H^2)``; true in theory.
    """

    virtual_episodes: bool | None = None


@dataclass(frozen=True)
class Defaults:
    """A tuning's values of c_0, of c in ``gamma_t = c / (c + t)``, and of the bonus's scale."""

    initial_rate: float
    exploration: float
    bonus_scale: float


class Rates(ABC):
    """Step sizes of the leaders, and the regularizer's part of the bonus.

    Parameters
    ----------
    problem : Problem
    parameters : RateParameters
    default : Defaults
        The tuning's values.

    Attributes
    ----------
    exploration : float
        c in ``gamma_t = c / (c + t)``.
    initial : (R,)
        c_0.
    bonus_scale : (R,)
    condition, power : float
        Theory needs ``condition eta policy^power B <= 1`` everywhere (section 2.7, condition CB).
    """

    condition: float
    power: float

    def __init__(self, problem: Problem, parameters: RateParameters, default: Defaults) -> None:
        self.horizon, self.n_actions = problem.horizon, problem.n_actions
        self.theory = parameters.tuning == "theory"
        self.exploration = default.exploration if parameters.exploration is None else parameters.exploration
        self.initial = _resolved("initial_rate", parameters.initial_rate, default.initial_rate, problem)
        self.bonus_scale = _resolved("bonus_scale", parameters.bonus_scale, default.bonus_scale, problem)

    @abstractmethod
    def leader(self, h: int, losses: Array, weight: Array) -> Array:
        """Return the policy (S, A, R) of step ``h`` for the cumulative losses (S, A, R) and w_t (S, R) there."""

    @abstractmethod
    def advance(self, policy: Array, losses: Array, weight: Array) -> Array | None:
        """Go from episode t - 1 to t, whose policy, L (H, S, A, R both) and w_t (H, S, R) are given.

        Return b_t^reg (H, S, R), or None if it depends on the trajectory.
        """

    @property
    @abstractmethod
    def step_size(self) -> Array:
        """eta_t of the last leaders, (H, S, A or 1, R); 0, for uniform ones, where no rate has begun to grow."""

    def learn(self, j: Feedback, returns: Array) -> Array:
        """Take in the losses-to-go (H, R) of a trajectory and return b_t^reg (H, S, R)."""
        bonus: Array = j.notes.bonus
        return bonus

    def virtual_bonus(self, weight: Array) -> Array | None:
        """Return the bonus (H, S, R) of a virtual episode for w_t (H, S, R), or None if no run needs one to play."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"initial_rate": self.initial, "exploration": self.exploration, "bonus_scale": self.bonus_scale}


class ScheduleRates(Rates):
    """A rate for each state, which grows with ``sum_t w_t(s)``.

    Attributes
    ----------
    rate : (R,)
        c_1 or kappa.
    self_timed : bool
        Whether the rate of episode t contains w_t.
    inverse_step, eta : (H, S, R)
        1/eta_t(s) as it has grown, and the eta_t(s) of the last leaders.
    """

    def __init__(self, problem: Problem, parameters: ScheduleParameters, default: Defaults, rate: float) -> None:
        super().__init__(problem, parameters, default)
        self.rate = _resolved("rate", parameters.rate, rate, problem, positive=True)
        self.self_timed = parameters.indexing == "self_timed"
        self.inverse_step = self.initial + problem.xp.zeros((problem.horizon, problem.n_states, problem.n_runs))
        self.eta = kernels.inverse(self.inverse_step)

    @property
    def step_size(self) -> Array:
        """eta_t, (H, S, 1, R)."""
        return self.eta[:, :, None, :]

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {**super().settings, "rate": self.rate}


class TsallisRates(ScheduleRates):
    """Section 2.4: ``psi_t(p; s) = -2 / eta_t(s) sum_a sqrt(p_a)``."""

    power = 0.5

    def __init__(self, problem: Problem, parameters: ScheduleParameters) -> None:
        H, S, A = problem.mdp.shape
        if parameters.tuning == "theory":
            c_0, c = 120 * math.sqrt(2) * math.e * H**3 * math.sqrt(A), 120 * math.e * H**2 * math.sqrt(A)
            super().__init__(problem, parameters, Defaults(c_0, c, 1.0), 2.0)
        else:
            super().__init__(problem, parameters, Defaults(0.0, 0.0, 0.5), 0.5)
        self.condition = 4.0 * H
        self.growth = self.rate * H  # c_1 H
        self.weight_sum = problem.xp.zeros((H, S, problem.n_runs))  # X_t(s) = sum_{tau <= t} w_tau(s)

    def leader(self, h: int, losses: Array, weight: Array) -> Array:
        """Return Tsallis' leaders."""
        after = self._inverse_step(self.weight_sum[h, ...] + weight)
        eta = kernels.inverse(after if self.self_timed else self.inverse_step[h, ...])
        policy: Array = kernels.tsallis_leader(losses, eta, 0.5)[0]
        return policy

    def _inverse_step(self, weight_sum: Array) -> Array:
        """Return ``1/eta_t(s) = c_0 + c_1 H sqrt(X_t(s))``."""
        return self.initial + self.growth * namespace(weight_sum).sqrt(weight_sum)

    def advance(self, policy: Array, losses: Array, weight: Array) -> Array:
        """See :meth:`Rates.advance`."""
        before = self.inverse_step
        self.weight_sum = self.weight_sum + weight
        self.inverse_step = self._inverse_step(self.weight_sum)
        self.eta = kernels.inverse(self.inverse_step if self.self_timed else before)
        # b_t = (1/eta_t - 1/eta_{t-1}) ((2 + 8/c_1^2) xi_t + (4/c_1^2) sqrt(A) 1{eta_t w_t > 1/(4H)})
        spread_weight, overflow_weight = (2.0 + 8.0 / self.rate**2, 4.0 / self.rate**2) if self.theory else (1.0, 0.25)
        overflow = namespace(weight).astype(self.eta * weight > 0.25 / self.horizon, weight.dtype)
        spread = spread_weight * kernels.tsallis_spread(policy)  # xi_t
        paid = spread + overflow_weight * math.sqrt(self.n_actions) * overflow
        return self.bonus_scale * (self.inverse_step - before) * paid


class ShannonRates(ScheduleRates):
    """Section 2.5: ``psi_t(p; s) = 1 / eta_t(s) sum_a p_a ln p_a``."""

    power = 0.0

    def __init__(self, problem: Problem, parameters: ScheduleParameters) -> None:
        H, S, A = problem.mdp.shape
        T, log_actions = problem.n_episodes, math.log(max(A, 2))
        practical = parameters.tuning == "practical"
        exploration = 0.0 if practical else (36 * math.e * H**2 * log_actions) ** 2
        if parameters.exploration is not None:
            exploration = parameters.exploration
        # Lambda = 1 + ln(2 T (1 + T/c)); c = 0, which has no theory, counts as 1
        log_term = 1.0 + math.log(2 * T * (1 + T / (exploration or 1.0)))
        initial = 18 * math.e * H**3 * math.sqrt(A * log_term * log_actions)
        if practical:
            super().__init__(problem, parameters, Defaults(0.5, exploration, 0.02), 0.3 * math.sqrt(A))
        else:
            super().__init__(problem, parameters, Defaults(initial, exploration, 1.0), H * math.sqrt(A * log_term))
        self.condition = 2.0 * H
        # H^2 A Lambda / kappa, which is kappa at the theory's own kappa
        self.stability = H**2 * A * log_term / self.rate if self.theory else self.rate
        self.log_actions = log_actions
        xp = problem.xp
        self.entropy_sum = xp.zeros((H, S, problem.n_runs))  # Y_t(s) = sum_{tau <= t} Ent_tau(s) w_tau(s)
        self.largest = xp.zeros((H, S, problem.n_runs))  # M_t(s) = ln A max_{tau <= t} w_tau(s)

    def leader(self, h: int, losses: Array, weight: Array) -> Array:
        """Return Shannon's leaders."""
        beta = self.inverse_step[h, ...]
        if self.self_timed:
            largest = self._largest(self.largest[h, ...], weight)
            beta = beta + self._increase(self.entropy_sum[h, ...] + largest, weight)
        policy: Array = kernels.shannon_leader(losses, kernels.inverse(beta))
        return policy

    def _largest(self, largest: Array, weight: Array) -> Array:
        """Return M_t."""
        return namespace(weight).maximum(largest, self.log_actions * weight)

    def _increase(self, square: Array, weight: Array) -> Array:
        """Return ``beta_t - beta_{t-1} = kappa w_t / sqrt(Y_{t-1} + M_t)``."""
        return self.rate * weight * kernels.inverse(namespace(weight).sqrt(square))

    def advance(self, policy: Array, losses: Array, weight: Array) -> Array:
        """See :meth:`Rates.advance`."""
        xp = namespace(weight)
        before = xp.sqrt(self.entropy_sum + self.largest)
        self.largest = self._largest(self.largest, weight)
        increase = self._increase(self.entropy_sum + self.largest, weight)
        self.eta = kernels.inverse(self.inverse_step + increase if self.self_timed else self.inverse_step)
        entropy = kernels.leader_entropy(policy, losses, self.eta)  # Ent_t
        self.entropy_sum = self.entropy_sum + entropy * weight
        if not self.self_timed:  # beta_{t+1} - beta_t = kappa w_t / sqrt(Y_t + M_t)
            increase = self._increase(self.entropy_sum + self.largest, weight)
        self.inverse_step = self.inverse_step + increase
        # b_t = (beta_t - beta_{t-1}) Ent_t + (H^2 A Lambda / kappa) (sqrt(Y_t + M_t) - sqrt(Y_{t-1} + M_{t-1}))
        growth = xp.sqrt(self.entropy_sum + self.largest) - before
        return self.bonus_scale * (increase * entropy + self.stability * growth)


class LogBarrierRates(Rates):
    """Section 2.6: ``psi_t(p; s) = sum_a 1 / eta_t(s, a) ln(1 / p_a)``, with virtual episodes."""

    power = 1.0

    def __init__(self, problem: Problem, parameters: LogBarrierParameters) -> None:
        H, S, A = problem.mdp.shape
        T = max(problem.n_episodes, 2)
        theory = Defaults(max(21.0 * H**2, 4 * math.e * H**3), 1.0, 5.0)
        super().__init__(problem, parameters, theory if parameters.tuning == "theory" else Defaults(3.0, 0.0, 0.2))
        per_run("initial_rate", self.initial, problem, positive=True)
        self.condition = 2.0 * H
        self.log_episodes = math.log(T)
        self.log_comparator = math.log(T) + (math.log(A) if self.theory else 0.0)
        self.has_virtual_episodes = self.theory if parameters.virtual_episodes is None else parameters.virtual_episodes
        self.virtual_growth = 1.0 / (66 * H * self.log_episodes)  # 1 / (kappa_v ln T)
        self.largest_ratio = 1.0 / (21 * H**2)  # rho
        self.first_in_a_row = True
        xp = problem.xp
        self.inverse_step = self.initial + xp.zeros((H, S, A, problem.n_runs))  # 1/eta_t(s, a)
        self.eta = kernels.inverse(self.inverse_step)
        self.n_virtual = xp.zeros(problem.n_runs)

    def leader(self, h: int, losses: Array, weight: Array) -> Array:
        """Return the log-barrier's leaders."""
        if h == 0:
            self.eta = kernels.inverse(self.inverse_step)
        policy: Array = kernels.log_barrier_leader(losses, self.inverse_step[h, ...])[0]
        return policy

    def advance(self, policy: Array, losses: Array, weight: Array) -> None:
        """Return nothing: the rates move with the trajectory."""

    def learn(self, j: Feedback, returns: Array) -> Array:
        """See :meth:`Rates.learn`."""
        xp = namespace(returns)
        # zeta_t(s, a) = (1_t(s, a) - pi_t(a|s) 1_t(s))^2 L_t^2, on the trajectory
        policy = kernels.at_states(j.policy, j.states)
        actions = xp.arange(self.n_actions, device=getattr(policy, "device", None))[None, :, None]
        played = xp.astype(actions == j.actions[:, None, :], policy.dtype)
        zeta = (played - policy) ** 2 * returns[:, None, :] ** 2
        # 1/eta_{t+1} = 1/eta_t + eta_t zeta_t / (d_t^2 ln T)
        denominator = kernels.at_states(j.notes.denominator[:, :, None, :], j.states)
        rate = kernels.at_states(self.inverse_step, j.states)
        increase = zeta / (rate * denominator**2 * self.log_episodes)
        self.inverse_step = kernels.add_at_states(self.inverse_step, j.states, increase)
        # b_t(s) = 5 ln(A T) sum_a (1/eta_{t+1}(s, a) - 1/eta_t(s, a))
        total = self.bonus_scale * self.log_comparator * xp.cumulative_sum(increase, axis=1)[:, -1:, :]
        nothing = xp.zeros((*self.inverse_step.shape[:2], 1, returns.shape[1]))
        return kernels.add_at_states(nothing, j.states, total)[:, :, 0, :]

    def virtual_bonus(self, weight: Array) -> Array | None:
        """Raise 1/eta where ``eta(s,a) / d(s)`` is largest, in the runs where it exceeds rho; see the base class."""
        if not self.has_virtual_episodes:
            return None
        xp = namespace(weight)
        ratio = self.eta * weight[:, :, None, :]
        shape = ratio.shape
        ratio = xp.reshape(ratio, (-1, shape[-1]))
        due = xp.max(ratio, axis=0) > self.largest_ratio
        if not bool(xp.any(due)):
            self.first_in_a_row = True
            return None
        if self.first_in_a_row:
            self._check_number(shape, ratio)
            self.first_in_a_row = False
        self.n_virtual = self.n_virtual + xp.astype(due, self.n_virtual.dtype)
        places = xp.arange(ratio.shape[0], device=getattr(ratio, "device", None))[:, None]
        here = xp.reshape((places == xp.argmax(ratio, axis=0)) & due, shape)
        # 1/eta(s, a) <- 1/eta(s, a) (1 + 1/(kappa_v ln T)),  b(s) = 3 ln(A T) (its increase): 3 is 0.6 of 5
        increase = xp.where(here, self.inverse_step * self.virtual_growth, 0.0)
        self.inverse_step = self.inverse_step + increase
        return 0.6 * self.bonus_scale * self.log_comparator * xp.sum(increase, axis=2)

    def _check_number(self, shape: tuple[int, ...], ratio: Array) -> None:
        """Raise if a run has too many virtual episodes ahead, at the occupancies of the moment."""
        xp = namespace(ratio)
        excess = xp.where(ratio > self.largest_ratio, ratio / self.largest_ratio, 1.0)
        ahead = float(xp.max(xp.sum(xp.log(excess), axis=0))) / math.log1p(self.virtual_growth)
        if ahead > MOST_VIRTUAL:
            raise InvalidInputError(
                f"the log-barrier's theory asks for {ahead:,.0f} virtual episodes before it plays the next episode of "
                f"this problem (H, S, A) = {shape[:3]}; use tuning='practical', or virtual_episodes=False"
            )

    @property
    def step_size(self) -> Array:
        """eta_t, (H, S, A, R)."""
        return self.eta

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters, and how many virtual episodes there were."""
        return {**super().settings, "n_virtual_episodes": self.n_virtual}


def _resolved(name: str, given: Any, default: float, problem: Problem, positive: bool = False) -> Array:
    return per_run(name, default if given is None else given, problem, positive=positive)
