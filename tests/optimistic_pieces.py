"""Pieces shared by the tests of optimistic learners."""

from __future__ import annotations

import numpy as np

from tabpo import TabularMDP
from tabpo.learners import Problem


def problem(shape, n_runs=1, n_episodes=10):
    n_steps, n_states, n_actions = shape
    uniform = np.full((n_steps, n_states, n_actions, n_states), 1 / n_states)
    return Problem(TabularMDP(uniform, np.full(n_states, 1 / n_states)), n_episodes, n_runs, 0, 0)


class Watch:
    """Calls ``look(learner)`` after every episode of a learner."""

    def __init__(self, make, look):
        self.make, self.look, self.seen = make, look, []

    def __call__(self, given):
        learner = self.make(given)
        learn = learner.learn

        def watched(k, arrivals):
            before = learner.policy
            learn(k, arrivals)
            self.seen.append(self.look(learner, before))

        learner.learn = watched
        return learner
