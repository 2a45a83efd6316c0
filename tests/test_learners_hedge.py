"""Delayed Hedge: its policy is the mixture of all deterministic policies, weighted by brute force."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, planning, simulate
from tabpo.learners import DelayedHedge, Feedback, Problem
from tabpo.learners.delayed_hedge import DelayedHedgeParameters, deterministic_occupancies
from tabpo.learners.protocol import Arrivals
from tests.conftest import random_policy
from tests.enumeration import all_trajectories, probabilities

ETA, GAMMA = 0.8, 0.1


def sparse_model(rng, H, S, A):
    """Return a model where each pair has one or two successors: some (h, s) are never reached."""
    transitions = np.zeros((H, S, A, S))
    for where in np.ndindex(H, S, A):
        two = rng.choice(S - 1, 2)
        transitions[where][two] += rng.dirichlet(np.ones(2)) if two[0] != two[1] else 1.0
    return TabularMDP(transitions, np.eye(S)[0])


def every_policy(H, S, A):
    for choice in itertools.product(range(A), repeat=H * S):
        yield np.eye(A)[np.array(choice)].reshape(H, S, A)


@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 2, 2), (1, 2, 3)])
def test_policy_is_the_mixture_of_all_policies(sizes, rng):
    """After three arrivals: weights exp(-eta <q^pi, chat>) of each policy, its occupancy, and what they mix to."""
    H, S, A = sizes
    mdp, n_runs = sparse_model(rng, H, S, A), 2
    learner = DelayedHedge(Problem(mdp, 10, n_runs, 0, 0), step_size=ETA, exploration=GAMMA)
    estimates = np.zeros((H, S, A, n_runs))
    for k in range(3):
        acting = random_policy(rng, H, S, A, n_runs)
        mu = planning.state_occupancy(mdp.transitions, mdp.initial, acting)
        states, actions = rng.integers(S, size=(H, n_runs)), rng.integers(A, size=(H, n_runs))
        losses = rng.random((H, n_runs))
        for h, r in np.ndindex(H, n_runs):
            s, a = states[h, r], actions[h, r]
            estimates[h, s, a, r] += losses[h, r] / (mu[h, s, r] * acting[h, s, a, r] + GAMMA)
        learner.learn(k, Arrivals((Feedback(k, states, actions, losses, acting, mu),)))
    got = learner.act(3)
    for r in range(n_runs):
        mixture, total = np.zeros((H, S, A)), 0.0
        for policy in every_policy(H, S, A):
            q = planning.occupancy(mdp.transitions, mdp.initial, policy)
            weight = np.exp(-ETA * (q * estimates[..., r]).sum())
            mixture, total = mixture + weight * q, total + weight
        mixture /= total
        reached = mixture.sum(2) > 0
        assert (~reached).any() or H == 1
        expected = np.full((H, S, A), 1 / A)
        expected[reached] = mixture[reached] / mixture.sum(2)[reached][:, None]
        np.testing.assert_allclose(got[..., r], expected, atol=1e-12)
        # Playing it has the mixture's occupancy, hence its expected loss, whatever the losses.
        np.testing.assert_allclose(
            planning.occupancy(mdp.transitions, mdp.initial, np.ascontiguousarray(got[..., r])), mixture, atol=1e-12
        )


def test_occupancies_of_all_deterministic_policies(rng):
    mdp = sparse_model(rng, 2, 3, 2)
    rows = deterministic_occupancies(Problem(mdp, 1, 1, 0, 0))
    expected = [planning.occupancy(mdp.transitions, mdp.initial, policy).ravel() for policy in every_policy(2, 3, 2)]
    assert rows.shape == (2**6, 12)
    order = [np.lexsort(np.round(array, 12).T) for array in (rows, np.array(expected))]
    np.testing.assert_allclose(rows[order[0]], np.array(expected)[order[1]], atol=1e-13)


def test_estimated_losses_of_policies_by_enumeration(rng):
    """Each trajectory as a run: the mean estimated loss of every policy is ``<q^pi, m / (m + gamma) c>``."""
    H, S, A = 2, 2, 2
    mdp = TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S)))
    states, actions = all_trajectories(mdp.initial, H, S, A)
    n = states.shape[1]
    learner = DelayedHedge(Problem(mdp, 10, n, 0, 0), step_size=1.0, exploration=GAMMA)
    acting = np.repeat(random_policy(rng, H, S, A, 1), n, -1)
    mu, losses = planning.state_occupancy(mdp.transitions, mdp.initial, acting), rng.random((H, S, A))
    observed = losses[np.arange(H)[:, None], states, actions]
    learner.learn(0, Arrivals((Feedback(0, states, actions, observed, acting, mu),)))
    log_weights = np.log(learner.weights[0, 0])  # up to a constant per run
    weights = probabilities(mdp.transitions, mdp.initial, acting, states, actions)
    m = (mu[:, :, None] * acting)[..., 0]
    stated = deterministic_occupancies(Problem(mdp, 1, 1, 0, 0)) @ (m / (m + GAMMA) * losses).ravel()
    estimated = -(log_weights - log_weights[:1]) @ weights
    np.testing.assert_allclose(estimated, stated - stated[0], atol=1e-12)


def test_finds_the_best_policy():
    """Two steps, one state: the best of four policies has loss 0, uniform play 1 an episode, 200 in all."""
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1), np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    learner = partial(DelayedHedge, step_size=0.1)
    result = simulate(Environment(mdp, delays=5), learner, 200, 8, checkpoints=[200])
    assert result.regret.max() < 80


def test_parameters_follow_the_specification():
    """H, S, A = 2, 3, 4, K = 10, D = 5: eta = sqrt(3 ln 4 / (2 (120 + 5)))."""
    given = Problem(TabularMDP(np.full((2, 3, 4, 3), 1 / 3), np.full(3, 1 / 3)), 10, 1, 5, 5)
    step_size, exploration = DelayedHedgeParameters().resolve(given)
    assert step_size[0] == exploration[0] == pytest.approx(np.sqrt(3 * np.log(4) / 250))


def test_too_many_policies():
    given = Problem(TabularMDP(np.full((2, 9, 2, 9), 1 / 9), np.full(9, 1 / 9)), 10, 1, 0, 0)
    with pytest.raises(
        InvalidInputError, match=r"A\^\(H S\) = 2\^18 deterministic policies; it is for at most 100,000"
    ):
        DelayedHedge(given)
    DelayedHedge(Problem(TabularMDP(np.full((1, 5, 10, 5), 0.2), np.full(5, 0.2)), 10, 1, 0, 0))  # 10^5: just


def test_only_numpy_arrays():
    import array_api_strict

    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1))
    with pytest.raises(InvalidInputError, match="simulate it with NumPy arrays"):
        DelayedHedge(Problem(mdp, 10, 1, 0, 0, xp=array_api_strict))
