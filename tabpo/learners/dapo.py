"""DAPO: delay-adapted policy optimization (Lancewicki, Rosenberg, Sotnikov, ICML 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tabpo import estimators, kernels
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.models import RadiusName, TransitionParameters
from tabpo.learners.protocol import Arrivals, Feedback, Problem, per_run


@dataclass(frozen=True)
class DAPOParameters(TransitionParameters):
    """Parameters of :class:`DAPO`. What is None takes the value of the tuning.

    Attributes
    ----------
    transitions, width_scale, bias_scale, refresh, counts
        See :class:`tabpo.learners.models.TransitionParameters`. The paper refreshes the sets every episode, which is as
        valid as every epoch and slower. With immediate counts, as in the paper, a trajectory has an influence on the
        policy that its own losses meet; lagged ones make the conditional mean of the estimator exact (section 3.1).
    radius : str
        ``"delayed_uob_reps"``, the paper's.
    failure_probability : float in (0, 1)
        delta; 0.1: the regret bound holds with probability 1 - delta for the delta of one's choice.
    tuning : "theory" or "practical"
        theory: ``step_size = (H^2 S A K + H^4 (K + D))^(-1/2)``, ``exploration = 2 step_size H``, ``bonus_scale = 1``
        (section 2.4 of the specification; minimises the regret bound up to constants).
        practical: ``step_size = step_scale (S A K + D)^(-1/2)``, ``exploration = step_size H``, ``bonus_scale = 0.1``.
    step_size : float or (R,), positive
        eta.
    exploration : float or (R,), at least 0
        gamma, the implicit exploration; also the weight of the bonus.
    bonus_scale : float or (R,), at least 0
        Multiplies the bonus, all of it; ``bias_scale`` multiplies the part ``H pi^j (u^j - l^j)`` once more.
    step_scale : float, positive
        Multiplies the step size of the tuning.
    adapt : bool
        Ablation: False puts 1 for the delay-adapted ratio, in the estimator and in the bonus.
    bonus : bool
        Ablation: False leaves the bonus out.
    implicit_exploration : bool
        Ablation: False puts 0 for gamma in the estimator's denominator; the bonus keeps its gamma.
    dilation : bool
        True multiplies the bonus's backup by 1 + 1/H (Luo, Wei, Lee 2021). Not needed here, and valid.
    """

    radius: RadiusName = "delayed_uob_reps"
    failure_probability: float | None = 0.1
    tuning: Literal["theory", "practical"] = "theory"
    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    bonus_scale: float | list[float] | None = None
    step_scale: float = 1.0
    adapt: bool = True
    bonus: bool = True
    implicit_exploration: bool = True
    dilation: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tuning not in ("theory", "practical"):
            raise InvalidInputError(f"tuning must be 'theory' or 'practical', got {self.tuning!r}")

    def theory(self, problem: Problem) -> tuple[float, float, float]:
        """Return the theory's step size, exploration per step size, and bonus scale."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        return (H**2 * S * A * K + H**4 * (K + D)) ** -0.5, 2.0 * H, 1.0

    def practical(self, problem: Problem) -> tuple[float, float, float]:
        """Return what works in practice for the three."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        return (S * A * K + D) ** -0.5, 1.0 * H, 0.1

    def resolve(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Return (step_size, exploration, bonus_scale), arrays (R,), for the problem's sizes."""
        default_step, explorations_per_step, default_scale = (
            self.theory(problem) if self.tuning == "theory" else self.practical(problem)
        )
        step_scale = per_run("step_scale", self.step_scale, problem, positive=True)
        step_size = step_scale * default_step if self.step_size is None else self.step_size
        step_size = per_run("step_size", step_size, problem, positive=True)
        exploration = explorations_per_step * step_size if self.exploration is None else self.exploration
        bonus_scale = default_scale if self.bonus_scale is None else self.bonus_scale
        return (
            step_size,
            per_run("exploration", exploration, problem),
            per_run("bonus_scale", bonus_scale, problem),
        )


class DAPO:
    """Policy optimization with delay-adapted estimators and an exploration bonus.

    The algorithm box is sections 2.1-2.2 of the specification, and 3.3 where the transitions are unknown. In the
    notation below, j is the episode whose feedback arrives, pi^j the policy that played it, P^j the confidence set in
    force then, u^j and l^j the upper and the lower bound of pi^j's state occupancy over P^j, and pi^k the policy in
    force now. With known transitions u^j = l^j is the occupancy itself, and P^j holds the true transitions only.
    """

    Parameters: type[DAPOParameters] = DAPOParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = self.Parameters(**parameters)
        self.step_size, self.exploration, self.bonus_scale = self.parameters.resolve(problem)
        H, S, A = problem.mdp.shape
        self.model = self.parameters.model(problem)
        self.estimator_exploration = (1.0 if self.parameters.implicit_exploration else 0.0) * self.exploration
        # Without width the upper bound of the occupancy may be 0 where the trajectory went.
        may_vanish = self.parameters.transitions == "unknown" and not np.all(self.parameters.width_scale)
        per_run("exploration in the estimator", self.estimator_exploration, problem, positive=may_vanish)
        self.bonus_weight = 3.0 * self.exploration * H * self.bonus_scale  # 3 gamma H
        self.width_weight = H * self.bonus_scale * per_run("bias_scale", self.parameters.bias_scale, problem)
        self.dilation = 1.0 / H if self.parameters.dilation else 0.0
        self.log_weights = problem.xp.zeros((H, S, A, problem.n_runs))
        self.policy = problem.xp.full((H, S, A, problem.n_runs), 1.0 / A)  # pi^1 is uniform

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def notes(self, k: int) -> Any:
        """Return (u^k, l^k, P^k), which the feedback of episode k will need; None if the transitions are known."""
        if self.parameters.transitions == "known":
            return None
        return (*self.model.occupancy_bounds(self.policy), self.model.snapshot())

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one multiplicative step with the whole batch of arrivals F^k; then count, and refresh the sets."""
        gains = None
        for j in arrivals:
            upper, lower, sets = j.notes or (j.state_occupancy, None, None)
            # Qhat^j = r^j 1{visited} L^j / (u^j pi^j + gamma),  r^j = pi^j / max(pi^j, pi^k)
            estimate = kernels.importance_weighted(
                estimators.returns_to_go(j.losses),
                j.policy,
                self.policy,
                upper,
                j.states,
                j.actions,
                self.estimator_exploration,
                self.parameters.adapt,
            )
            if self.parameters.bonus:
                bonus = self.bonus(j, upper, lower)
                # B^j = b^j + max_{p in P^j} p <pi^j, B^j>: the acting policy's action values for the bonus
                gain, _ = self.model.bonus_values(bonus[:, :, None, :], j.policy, self.dilation, sets)
            else:
                gain = namespace(self.policy).zeros_like(self.policy)
            gain = kernels.add_at_trajectory(gain, j.states, j.actions, -estimate)  # B^j - Qhat^j
            gains = gain if gains is None else gains + gain
        if gains is not None:
            # pi^{k+1} ~ pi^k exp(eta sum_{j in F^k} (B^j - Qhat^j))
            self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, gains, -self.step_size)
        self.model.observe(arrivals)

    def bonus(self, j: Feedback, upper: Array, lower: Array | None) -> Array:
        """Return b^j, shape (H, S, R); without a lower bound the upper one is the occupancy itself."""
        # b^j(s) = sum_a pi^k r^j (3 gamma H + H pi^j (u^j - l^j)) / (u^j pi^j + gamma)
        bonus: Array = kernels.exploration_bonus(
            j.policy,
            self.policy,
            upper,
            self.exploration,
            self.bonus_weight,
            self.parameters.adapt,
            lower,
            self.width_weight,
        )
        return bonus

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {
            "step_size": self.step_size,
            "exploration": self.exploration,
            "bonus_scale": self.bonus_scale,
            **self.model.settings,
        }
