"""DAPO: delay-adapted policy optimization with known transitions (Lancewicki, Rosenberg, Sotnikov, ICML 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tabpo import estimators, kernels
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class DAPOParameters:
    """Parameters of :class:`DAPO`. What is None takes the value of the tuning.

    Attributes
    ----------
    tuning : "theory" or "practical"
        theory: ``step_size = (H^2 S A K + H^4 (K + D))^(-1/2)``, ``exploration = 2 step_size H``, ``bonus_scale = 1``
        (section 2.4 of the specification; minimises the regret bound up to constants).
        practical: ``step_size = step_scale (S A K + D)^(-1/2)``, ``exploration = step_size H``, ``bonus_scale = 0.1``.
    step_size : float or (R,), positive
        eta.
    exploration : float or (R,), at least 0
        gamma, the implicit exploration; also the weight of the bonus.
    bonus_scale : float or (R,), at least 0
        Multiplies the bonus ``3 gamma H ...``.
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
        if self.tuning not in ("theory", "practical"):
            raise InvalidInputError(f"tuning must be 'theory' or 'practical', got {self.tuning!r}")

    def resolve(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Return (step_size, exploration, bonus_scale), arrays (R,), for the problem's sizes."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        step_scale = per_run("step_scale", self.step_scale, problem, positive=True)
        if self.tuning == "theory":
            default_step, explorations_per_step, default_scale = (
                (H**2 * S * A * K + H**4 * (K + D)) ** -0.5,
                2 * H,
                1.0,
            )
        else:
            default_step, explorations_per_step, default_scale = (S * A * K + D) ** -0.5, H, 0.1
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
    """Policy optimization with delay-adapted estimators and an exploration bonus; transitions known.

    The algorithm box is section 2.1-2.2 of the specification. In the notation below, j is the episode whose feedback
    arrives, pi^j the policy that played it, mu^j the state occupancy of pi^j, and pi^k the policy in force now.
    """

    Parameters = DAPOParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = DAPOParameters(**parameters)
        self.step_size, self.exploration, self.bonus_scale = self.parameters.resolve(problem)
        H, S, A = problem.mdp.shape
        xp = problem.xp
        self.transitions = kernels.prepare(problem.mdp.transitions, xp)
        self.estimator_exploration = (1.0 if self.parameters.implicit_exploration else 0.0) * self.exploration
        # Without exploration the bonus is 0, also where mu^j pi^j + gamma is: any positive number will do there.
        self.bonus_exploration = xp.where(self.exploration > 0, self.exploration, 1.0)
        self.bonus_weight = 3.0 * self.exploration * H * self.bonus_scale  # 3 gamma H
        self.dilation = 1.0 / H if self.parameters.dilation else 0.0
        self.log_weights = xp.zeros((H, S, A, problem.n_runs))
        self.policy = xp.full((H, S, A, problem.n_runs), 1.0 / A)  # pi^1 is uniform

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one multiplicative step with the whole batch of arrivals F^k."""
        if not arrivals:
            return
        gradient = None
        for j in arrivals:
            # Qhat^j = r^j 1{visited} L^j / (mu^j pi^j + gamma),  r^j = pi^j / max(pi^j, pi^k)
            estimate = kernels.importance_weighted(
                estimators.returns_to_go(j.losses),
                j.policy,
                self.policy,
                j.state_occupancy,
                j.states,
                j.actions,
                self.estimator_exploration,
                self.parameters.adapt,
            )
            if self.parameters.bonus:
                # -b^j(s) = -3 gamma H sum_a pi^k r^j / (mu^j pi^j + gamma)
                minus_bonus = kernels.exploration_bonus(
                    j.policy,
                    self.policy,
                    j.state_occupancy,
                    self.bonus_exploration,
                    -self.bonus_weight,
                    self.parameters.adapt,
                )
                # -B^j = -b^j + p <pi^j, -B^j>: the acting policy's action values for the bonus
                term, _ = kernels.q_values(self.transitions, minus_bonus[:, :, None, :], j.policy, self.dilation)
            else:
                term = namespace(self.policy).zeros_like(self.policy)
            term = kernels.add_at_trajectory(term, j.states, j.actions, estimate)  # Qhat^j - B^j
            gradient = term if gradient is None else gradient + term
        # pi^{k+1} ~ pi^k exp(-eta sum_{j in F^k} (Qhat^j - B^j))
        self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, gradient, self.step_size)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration, "bonus_scale": self.bonus_scale}
