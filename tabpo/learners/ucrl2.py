"""UCRL2 in episodes: optimal in the best plausible model (Jaksch, Ortner, Auer, JMLR 2010)."""

from __future__ import annotations

import math
from typing import Any

from tabpo.arrays import Array, namespace
from tabpo.learners.empirical import EmpiricalModel, OptimismParameters, greedy_policy
from tabpo.learners.protocol import Arrivals, Problem, per_run


class UCRL2:
    """Plays what is optimal for the most optimistic of the plausible losses and transitions.

    At step t, the first of an epoch, these are the losses within ``sqrt(7 ln(2 S A t / delta) / (2 N))`` of their means
    and the transitions within ``sqrt(14 S ln(2 A t / delta) / N)`` of the empirical ones, in L1 distance. With S states
    at each of H steps this holds for the truth, at all epochs with probability 1 - delta, as it does for S states in
    all: t exceeds H once anything was seen (derived). The regret for stochastic losses is Õ(H^2 S sqrt(A K)); losses
    that change can make it linear.

    An epoch ends with the episode in which the visits of an (h, s, a) have doubled, or the losses that arrived of it:
    trajectories count when they are seen, losses when they arrive.
    """

    Parameters = OptimismParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = OptimismParameters(**parameters)
        self.bonus_scale = per_run("bonus_scale", self.parameters.bonus_scale, problem)
        self.model = EmpiricalModel(problem)
        self.q_values = problem.xp.zeros((*problem.mdp.shape, problem.n_runs))
        self.policy = greedy_policy(self.q_values)

    def act(self, k: int) -> Array:
        """Return the policy of the epoch, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Count; then plan in the runs whose epoch is over."""
        self.model.observe(arrivals)
        due = self.model.begin_epochs()
        xp = namespace(self.q_values)
        if bool(xp.any(due)):
            n_steps = self.q_values.shape[0]
            self.q_values = xp.where(due, self.lower_bounds(t=n_steps * (k + 1) + 1), self.q_values)
            self.policy = greedy_policy(self.q_values)

    def lower_bounds(self, t: int) -> Array:
        """Return the least action values over the models that are plausible at step t, by extended value iteration."""
        xp = namespace(self.q_values)
        n_steps, n_states, n_actions, n_runs = self.q_values.shape
        delta = self.parameters.failure_probability
        loss_log, transition_log = math.log(2 * n_states * n_actions * t / delta), math.log(2 * n_actions * t / delta)
        loss_radius = self.bonus_scale * xp.sqrt(7 * loss_log / (2 * self.model.heard))
        radius = self.bonus_scale * xp.sqrt(14 * n_states * transition_log / self.model.visits)
        losses = self.model.mean_losses - loss_radius
        losses = xp.maximum(losses, xp.zeros_like(losses))
        values = xp.zeros((n_states, n_runs))
        q_values: list[Array] = []
        for h in reversed(range(n_steps)):
            # Q_h = l_h + min_p sum_s' p(s') V_{h+1}(s') over |p - p_h|_1 <= radius,  V_h = min_a Q_h
            q_values.append(losses[h, ...] + self.model.least_next(h, radius[h, ...], values))
            values = xp.min(q_values[-1], axis=1)
        return xp.stack(q_values[::-1])

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"bonus_scale": self.bonus_scale, "failure_probability": self.parameters.failure_probability}
