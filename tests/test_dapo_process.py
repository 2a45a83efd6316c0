"""The whole process of DAPO, every trajectory of every episode: the regret decomposition and its bounds, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tabpo import estimators, kernels, planning
from tabpo.learners import DAPO, Feedback, Problem
from tabpo.learners.protocol import Arrivals
from tabpo.mdp import TabularMDP
from tests.enumeration import all_trajectories, probabilities

H = S = A = 2


class WholeTree:
    """DAPO played once for each joint trajectory of K episodes, as runs side by side, with their probabilities."""

    def __init__(self, delays, eta, gamma, seed):
        rng = np.random.default_rng(seed)
        self.K, self.delays, self.eta, self.gamma = len(delays), delays, eta, gamma
        self.transitions, self.initial = rng.dirichlet(np.ones(S), (H, S, A)), np.array([1.0, 0.0])
        self.losses = rng.random((self.K, H, S, A))
        states, actions = all_trajectories(self.initial, H, S, A)
        n = states.shape[1]
        index = np.stack(np.unravel_index(np.arange(n**self.K), (n,) * self.K))  # (K, n^K)
        self.weights = np.ones(n**self.K)
        mdp = TabularMDP(self.transitions, self.initial)
        learner = DAPO(Problem(mdp, self.K, n**self.K, 0, 0), step_size=eta, exploration=gamma)
        self.policy, self.mu, self.arrival, self.estimate = [], [], {}, {}
        pending: dict[int, list[Feedback]] = {}
        for k in range(self.K):
            policy = learner.act(k)
            s, a = (np.ascontiguousarray(x[:, index[k]]) for x in (states, actions))
            self.weights = self.weights * probabilities(self.transitions, self.initial, policy, s, a)
            mu = kernels.state_occupancy(self.transitions, self.initial, policy)
            observed = self.losses[k][np.arange(H)[:, None], s, a]
            pending.setdefault(k + delays[k], []).append(Feedback(k, s, a, observed, policy, mu))
            self.policy.append(policy)
            self.mu.append(mu)
            arrivals = pending.pop(k, [])
            for j in arrivals:
                self.arrival[j.episode] = policy
                self.estimate[j.episode] = estimators.q_estimate(
                    j.losses, j.policy, policy, j.state_occupancy, j.states, j.actions, gamma
                )
            learner.learn(k, Arrivals(tuple(arrivals)))
        assert set(self.arrival) == set(range(self.K))  # all feedback arrives in these examples
        total = self.losses.sum(0)
        self.best, self.best_value = planning.best_in_hindsight(self.transitions, self.initial, total)
        self.best_mu = planning.state_occupancy(self.transitions, self.initial, self.best)

    def mean(self, values):
        """Return the expectation over the tree; runs last."""
        return values @ self.weights

    def against_best(self, weights, values):
        """Return ``E sum_h E_{s ~ mu*} <weights, values>``."""
        return float(self.mean((self.best_mu[:, :, None, None] * weights * values).sum((0, 1, 2))))

    def bonus(self, j):
        pi, sigma = self.policy[j], self.arrival[j]
        return 3 * self.gamma * H * (np.minimum(pi, sigma) / (self.mu[j][:, :, None] * pi + self.gamma)).sum(2)

    def terms(self):
        """Return the five roles of the decomposition, summed over the episodes."""
        roles = dict.fromkeys(("drift", "bias_1", "bias_2", "reg", "bonus"), 0.0)
        best = self.best[..., None]
        for j in range(self.K):
            pi, sigma, estimate = self.policy[j], self.arrival[j], self.estimate[j]
            q, _ = planning.evaluate(self.transitions, self.losses[j], pi)
            b, _ = kernels.q_values(self.transitions, self.bonus(j)[:, :, None, :], pi)
            roles["drift"] += self.against_best(pi - sigma, q - b)
            roles["bias_1"] += self.against_best(sigma, q - estimate)
            roles["bias_2"] += self.against_best(best, estimate - q)
            roles["reg"] += self.against_best(sigma - best, estimate - b)
            roles["bonus"] += self.against_best(pi - best, b)
        return roles

    def regret(self):
        """Return the exact expected regret from the occupancies of the policies."""
        losses = [
            self.mean((self.mu[j][:, :, None] * self.policy[j] * self.losses[j][..., None]).sum((0, 1, 2)))
            for j in range(self.K)
        ]
        return float(sum(losses)) - self.best_value


TREES = [((2, 0, 0), 0.3, 0.2, 1), ((1, 1, 0), 0.05, 0.05, 2), ((2, 1, 0), 1.0, 0.1, 3), ((0, 0, 0), 0.5, 0.05, 4)]


@pytest.fixture(params=TREES, ids=lambda tree: f"delays{tree[0]}", scope="module")
def tree(request):
    return WholeTree(*request.param)


def test_the_tree_is_a_distribution(tree):
    assert tree.weights.sum() == pytest.approx(1, abs=1e-13)


def test_decomposition_sums_to_the_exact_regret(tree):
    assert sum(tree.terms().values()) == pytest.approx(tree.regret(), abs=1e-12)


def test_conditional_means_hold_along_the_process(tree):
    """P1 given everything but trajectory j: multiplied by any function of the others, here sigma^j itself."""
    for j in range(tree.K):
        pi, sigma = tree.policy[j], tree.arrival[j]
        m = tree.mu[j][:, :, None] * pi
        q, _ = planning.evaluate(tree.transitions, tree.losses[j], pi)
        stated = estimators.delay_adapted_ratio(pi, sigma) * m / (m + tree.gamma) * q
        deviation = tree.mean(sigma * (tree.estimate[j] - stated))
        np.testing.assert_allclose(deviation, 0, atol=2e-15)


def test_each_role_is_below_its_bound(tree):
    roles = tree.terms()
    K, D = tree.K, sum(tree.delays)
    arrivals = np.bincount([j + d for j, d in enumerate(tree.delays)], minlength=K)
    moved = sum(
        float(tree.mean((tree.best_mu[:, :, None] * np.abs(tree.policy[j] - tree.arrival[j]).sum(2) / 2).sum((0, 1))))
        for j in range(K)
    )
    bonuses = sum(float(tree.mean((tree.best_mu[:, :, None] * tree.bonus(j)).sum((0, 1)))) for j in range(K))  # beta*
    paid = sum(float(tree.mean((tree.mu[j] * tree.bonus(j)).sum((0, 1)))) for j in range(K))
    slack = 1e-12
    assert roles["bias_2"] <= slack
    assert roles["bias_1"] <= H * moved + bonuses / 3 + slack  # P3
    assert roles["drift"] <= (H + 3 * H**2) * moved + slack
    assert roles["bonus"] == pytest.approx(paid - bonuses, abs=1e-12)  # L8
    assert paid <= 3 * tree.gamma * H**2 * S * A * K + slack  # P6
    overlaps = sum(j <= i + tree.delays[i] < j + tree.delays[j] for j in range(K) for i in range(K))
    assert overlaps <= D  # L3
    assert moved <= tree.eta * (H + 3 * H**2) * H * overlaps + slack  # L7, summed over h
    if 3 * tree.eta * H**2 * arrivals.max() <= 1:
        variance = H * bonuses / (3 * tree.gamma) + 2 * H**3 * D + 9 * H**5 * (K + 2 * D)
        assert roles["reg"] <= H * np.log(A) / tree.eta + tree.eta * variance  # L5
