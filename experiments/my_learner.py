"""A learner of your own: two methods in plain NumPy, run by ``kind = "my_learner.py:FollowTheLeader"`` in a config.

It keeps a running mean of every observed loss, for each run, and follows the best policy for these means, with a little
uniform exploration. Arrays carry the run axis last: R independent runs advance together.
"""

import numpy as np


class FollowTheLeader:
    """Plays the best policy for the mean observed losses, mixed with uniform play."""

    def __init__(self, problem, mixing: float = 0.1):
        self.transitions = problem.mdp.transitions  # (H, S, A, S)
        self.mixing = mixing
        shape = (*problem.mdp.shape, problem.n_runs)  # (H, S, A, R)
        self.total, self.count = np.zeros(shape), np.zeros(shape)

    def act(self, k):
        """Return the policy of episode k, shape (H, S, A, R)."""
        means = self.total / np.maximum(self.count, 1)  # 0, the best possible, where nothing was seen
        n_steps, n_states, n_actions, n_runs = means.shape
        policy = np.full_like(means, self.mixing / n_actions)
        values = np.zeros((n_states, n_runs))
        for h in reversed(range(n_steps)):
            q = means[h] + np.einsum("sap,pr->sar", self.transitions[h], values)
            best = q.argmin(axis=1)[:, None, :] == np.arange(n_actions)[None, :, None]
            policy[h] += (1 - self.mixing) * best
            values = q.min(axis=1)
        return policy

    def learn(self, k, arrivals):
        """Take in the feedback that arrives at the end of episode k."""
        for j in arrivals:
            steps, runs = np.ogrid[: len(j.states), : j.states.shape[1]]
            self.total[steps, j.states, j.actions, runs] += j.losses
            self.count[steps, j.states, j.actions, runs] += 1
