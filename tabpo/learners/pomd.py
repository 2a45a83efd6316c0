"""POMD: optimistic policy optimization by mirror descent (Shani, Efroni, Rosenberg, Mannor, ICML 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.d_oppo import DOPPO
from tabpo.learners.empirical import EmpiricalModel, OptimismParameters, transition_bonus
from tabpo.learners.protocol import Arrivals, Learner, Problem, notes_of, per_run


@dataclass(frozen=True)
class POMDParameters(OptimismParameters):
    """Parameters of :class:`POMD`.

    Attributes
    ----------
    losses : "stochastic" or "adversarial"
        Which of the paper's two algorithms.
    step_size : float or (R,), positive
        t_K. If None, ``sqrt(2 ln A / (H^2 K))`` for stochastic losses, ``1 / (H K^(2/3))`` for adversarial ones
        (section 8d of the formulas page; the second is recalled).
    exploration : float or (R,), at least 0
        gamma, for adversarial losses; ``1 / (sqrt(A) K^(1/3))`` if None (recalled).
    refresh : "epoch" or "episode"
        When the confidence sets follow the counts, for adversarial losses. The paper has "episode".
    failure_probability : float in (0, 1)
        delta.
    bonus_scale : float or (R,), at least 0
        Multiplies the bonuses; for adversarial losses, the radii of the confidence sets.
    """

    losses: Literal["stochastic", "adversarial"] = "stochastic"
    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    refresh: Literal["epoch", "episode"] = "epoch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.losses not in ("stochastic", "adversarial"):
            raise InvalidInputError(f"losses must be 'stochastic' or 'adversarial', got {self.losses!r}")

    def rates(self, problem: Problem) -> tuple[float | list[float], float | list[float]]:
        """Return the step size and the exploration for the problem's sizes."""
        H, _, A = problem.mdp.shape
        K = problem.n_episodes
        default = mirror_descent_step(problem) if self.losses == "stochastic" else 1 / (H * K ** (2 / 3))
        step_size = default if self.step_size is None else self.step_size
        exploration = 1 / (math.sqrt(A) * K ** (1 / 3)) if self.exploration is None else self.exploration
        return step_size, exploration


def mirror_descent_step(problem: Problem) -> float:
    """Return ``t_K = sqrt(2 ln A / (H^2 K))``; with a single action, which leaves nothing to learn, that of two."""
    return math.sqrt(2 * math.log(max(problem.n_actions, 2)) / problem.n_episodes) / problem.horizon


class POMD:
    """Exponential weights on optimistic action values; transitions are unknown, losses those of the trajectory.

    The regret is Õ(S H^2 sqrt(A K)) for stochastic losses, see :class:`StochasticPOMD`. For adversarial ones it is
    Õ(S H^2 sqrt(A) K^(2/3)): importance-weighted losses, divided by the upper occupancy bound, and the least action
    values over a confidence set are the steps of :class:`tabpo.learners.DOPPO`, which takes them at this paper's rates.
    """

    Parameters = POMDParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = POMDParameters(**parameters)
        make = StochasticPOMD if self.parameters.losses == "stochastic" else adversarial_pomd
        self.inside: Learner = make(problem, self.parameters)

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.inside.act(k)

    def notes(self, k: int) -> Any:
        """Return what the feedback of episode k will need."""
        return notes_of(self.inside, k)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make the step of the algorithm for these losses."""
        self.inside.learn(k, arrivals)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"losses": self.parameters.losses, **getattr(self.inside, "settings", {})}


def adversarial_pomd(problem: Problem, parameters: POMDParameters) -> DOPPO:
    """Return the algorithm for adversarial losses."""
    step_size, exploration = parameters.rates(problem)
    return DOPPO(
        problem,
        transitions="unknown",
        radius="uob_reps",
        refresh=parameters.refresh,
        failure_probability=parameters.failure_probability,
        width_scale=parameters.bonus_scale,
        step_size=step_size,
        exploration=exploration,
    )


class StochasticPOMD:
    """The algorithm for stochastic losses: empirical means less two bonuses, of the losses and of the transitions.

    Every episode makes one step, with what was seen and what arrived before it. A delayed loss so far counts as not
    observed, which keeps its bonus large. Section 8d of the formulas page.
    """

    returns_new_policies = True

    def __init__(self, problem: Problem, parameters: POMDParameters) -> None:
        H, S, A = problem.mdp.shape
        self.problem, self.parameters = problem, parameters
        step_size, _ = parameters.rates(problem)
        self.step_size = per_run("step_size", step_size, problem, positive=True)
        self.bonus_scale = per_run("bonus_scale", parameters.bonus_scale, problem)
        self.failure_probability = parameters.failure_probability / 3  # delta'
        n_total = H * problem.n_episodes  # T
        self.log_term = math.log(2 * S * A * H * n_total / self.failure_probability)
        self.model = EmpiricalModel(problem)
        self.log_weights = problem.xp.zeros((H, S, A, problem.n_runs))
        self.policy = problem.xp.full((H, S, A, problem.n_runs), 1.0 / A)

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Step along the optimistic action values of pi^k, then count."""
        # Q_h = max{0, c_h - b_h + p_h V_{h+1}},  V_h = <pi^k_h, Q_h>
        q_values = self.model.optimistic_values(self.model.mean_losses - self.bonus(), self.policy)
        # pi^{k+1} ~ pi^k exp(-t_K Q)
        self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, q_values, self.step_size)
        self.model.observe(arrivals)

    def bonus(self) -> Array:
        """Return ``b = b^c + b^p``, shape (H, S, A, R)."""
        # b^c = sqrt(2 ln(2 S A H T / delta') / n)
        of_losses = namespace(self.policy).sqrt(2 * self.log_term / self.model.heard)
        of_transitions = transition_bonus(self.problem, self.model.visits, self.failure_probability)
        return self.bonus_scale * (of_losses + of_transitions)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {
            "step_size": self.step_size,
            "bonus_scale": self.bonus_scale,
            "failure_probability": self.parameters.failure_probability,
        }
