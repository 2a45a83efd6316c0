"""The whole process of DAPO with unknown transitions: what immediate and lagged counts do to conditional means.

Every trajectory of every episode is played, as runs side by side, each with its probability (section 3.1 of the DAPO
specification).
"""

from __future__ import annotations

import numpy as np
import pytest

from tabpo import estimators, kernels, planning
from tabpo.learners import DAPO, Feedback, Problem, Trajectory
from tabpo.learners.protocol import Arrivals
from tabpo.mdp import TabularMDP
from tests.enumeration import all_trajectories, probabilities

H = S = A = 2
K, GAMMA = 4, 0.1


def deviations(counts, delays, seed=1, **parameters):
    """Return ``E <sigma^j, Qhat^j - r m / (u pi + gamma) Q>`` of each episode j, step and state, (K, H, S).

    sigma^j is the policy in force when the feedback of j arrives, r and u the learner's own, and E runs over all joint
    trajectories of the K episodes.
    """
    rng = np.random.default_rng(seed)
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), np.array([1.0, 0.0])
    losses = rng.random((K, H, S, A))
    states, actions = all_trajectories(initial, H, S, A)
    n = states.shape[1]
    joint = np.stack(np.unravel_index(np.arange(n**K), (n,) * K))  # (K, n^K)
    problem = Problem(TabularMDP(transitions, initial), K, n**K, 0, 0)
    learner = DAPO(
        problem, transitions="unknown", counts=counts, step_size=1.0, exploration=GAMMA, width_scale=0.002, **parameters
    )
    weights = np.ones(n**K)
    pending: dict[int, list[Feedback]] = {}
    result = np.zeros((K, H, S, n**K))
    for k in range(K):
        policy, notes = learner.act(k), learner.notes(k)
        s, a = (np.ascontiguousarray(x[:, joint[k]]) for x in (states, actions))
        weights = weights * probabilities(transitions, initial, policy, s, a)
        mu = kernels.state_occupancy(transitions, initial, policy)
        observed = losses[k][np.arange(H)[:, None], s, a]
        pending.setdefault(k + delays[k], []).append(Feedback(k, s, a, observed, policy, mu, notes))
        arrivals = tuple(pending.pop(k, ()))
        for j in arrivals:
            result[j.episode] = deviation(j, policy, transitions, losses[j.episode])
        learner.learn(k, Arrivals(arrivals, (Trajectory(k, s, a),)))
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    return result @ weights


def deviation(j, sigma, transitions, losses):
    upper = j.notes[0]
    estimate = estimators.q_estimate(j.losses, j.policy, sigma, upper, j.states, j.actions, GAMMA)
    below = upper[:, :, None] * j.policy + GAMMA
    q, _ = planning.evaluate(transitions, losses, j.policy)
    ratio = estimators.delay_adapted_ratio(j.policy, sigma)
    stated = ratio * j.state_occupancy[:, :, None] * j.policy / below * q
    return (sigma * (estimate - stated)).sum(2)


DELAYS = [(3, 0, 1, 0), (2, 2, 0, 0)]


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
@pytest.mark.parametrize("delays", DELAYS, ids=str)
def test_lagged_counts_make_conditional_means_exact(delays, refresh):
    """Expectations over 4096 trajectories of terms of order 10: rounding is below 1e-13."""
    assert np.abs(deviations("lagged", delays, refresh=refresh)).max() < 1e-12


@pytest.mark.parametrize("delays", DELAYS, ids=str)
def test_immediate_counts_do_not(delays):
    """A trajectory changes the sets that other estimators use before its own losses arrive."""
    assert np.abs(deviations("immediate", delays)).max() > 1e-2


def test_without_delays_both_are_exact():
    immediate, lagged = (deviations(counts, (0, 0, 0, 0)) for counts in ("immediate", "lagged"))
    np.testing.assert_array_equal(immediate, lagged)
    assert np.abs(lagged).max() < 1e-12
