"""The simulation's numbers: against a loop written again, brute force, PO without delays and sampled means."""

from __future__ import annotations

from functools import partial

import array_api_strict
import numpy as np
import pytest

from tabpo import Environment, TabularMDP, kernels, simulate
from tabpo.environments import ArrayLosses
from tabpo.learners import DAPO, DOPPO, Problem
from tests import reference_loop
from tests.conftest import random_policy

# A few dozen episodes of sums of order 1 in another order, through a softmax: 1e-10 is 10^4 times their rounding.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def random_model(rng, H, S, A):
    return TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S)))


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("bonus_scale", [1.0, 0.1])
def test_dapo_is_what_a_loop_in_plain_numpy_computes(noise, bonus_scale, rng):
    """Regret, expected and sampled loss at every episode, random delays of which some never end."""
    H, S, A, K, R, seed = 3, 2, 2, 60, 4, 11
    mdp = random_model(rng, H, S, A)
    losses, delays = rng.random((K, H, S, A)), rng.integers(0, 25, K)
    eta, gamma = 0.2, 0.05
    result = simulate(
        Environment(mdp, ArrayLosses(losses, noise), delays),
        partial(DAPO, step_size=eta, exploration=gamma, bonus_scale=bonus_scale),
        K,
        R,
        seed,
        checkpoints=range(1, K + 1),
    )
    totals = np.cumsum(losses, axis=0)
    own = np.array([reference_loop.least_loss(mdp.transitions, mdp.initial, total) for total in totals])
    for r in range(R):
        expected, sampled, last = reference_loop.play_dapo(
            mdp.transitions, mdp.initial, losses, delays, eta, gamma, bonus_scale, seed, r, noise == "bernoulli"
        )
        np.testing.assert_allclose(result.expected_loss[:, r], np.cumsum(expected), **CLOSE)
        np.testing.assert_allclose(result.sampled_loss[:, r], np.cumsum(sampled), **CLOSE)
        np.testing.assert_allclose(result.regret[:, r], np.cumsum(expected) - own, **CLOSE)
        assert np.abs(last - 1 / A).max() > 0.2  # the policy has moved: the loop was put to the test
    np.testing.assert_allclose(result.comparator_loss[:, 0], own, **CLOSE)
    # The final comparator is one policy for all checkpoints: the best of all for the last sum.
    policies = list(reference_loop.deterministic_policies(H, S, A))
    values = [[reference_loop.expected_loss(mdp.transitions, mdp.initial, p, t) for t in totals] for p in policies]
    best = min(values, key=lambda curve: curve[-1])
    np.testing.assert_allclose(result.final_comparator_loss[:, 0], best, **CLOSE)
    np.testing.assert_allclose(result.final_regret, result.expected_loss - np.array(best)[:, None], **CLOSE)
    assert result.lost_feedback == np.sum(np.arange(K) + delays >= K) > 0


class UndelayedPO:
    """Exponential weights on ``1{visited} L / (mu pi + gamma)`` minus the exploration bonus, with no word of delays."""

    def __init__(self, problem: Problem, step_size: float, exploration: float):
        self.transitions = kernels.prepare(problem.mdp.transitions)
        shape = (*problem.mdp.shape, problem.n_runs)
        self.step_size, self.exploration = (np.full(problem.n_runs, x) for x in (step_size, exploration))
        self.bonus_weight = 3.0 * self.exploration * problem.horizon
        self.log_weights, self.policy = np.zeros(shape), np.full(shape, 1 / problem.n_actions)

    def act(self, k):
        return self.policy

    def learn(self, k, arrivals):
        (j,) = arrivals
        assert j.episode == k
        pi, mu, gamma = self.policy, j.state_occupancy, self.exploration
        bonus = kernels.exploration_bonus(pi, pi, mu, gamma, self.bonus_weight, False)
        bonus_q, _ = kernels.q_values(self.transitions, bonus[:, :, None], pi)
        to_go = np.cumsum(j.losses[::-1], axis=0)[::-1]
        estimate = kernels.importance_weighted(to_go, pi, pi, mu, j.states, j.actions, gamma, False)
        gradient = kernels.add_at_trajectory(-bonus_q, j.states, j.actions, estimate)
        self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, gradient, self.step_size)


PARAMETERS = {"step_size": 0.1, "exploration": 0.05}


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_without_delays_dapo_is_undelayed_policy_optimization_bit_for_bit(backend, rng):
    environment = Environment(random_model(rng, 3, 4, 3), rng.random((200, 3, 4, 3)))
    with kernels.using(backend):
        dapo, plain, undelayed = (
            simulate(environment, partial(make, **PARAMETERS), 200, 5, 1)
            for make in (DAPO, partial(DAPO, adapt=False), UndelayedPO)
        )
    for other in (plain, undelayed):
        np.testing.assert_array_equal(dapo.regret, other.regret)
        np.testing.assert_array_equal(dapo.sampled_loss, other.sampled_loss)


def test_adaptation_matters_as_soon_as_there_is_a_delay(rng):
    """Otherwise the comparison above would compare nothing."""
    environment = Environment(random_model(rng, 3, 4, 3), rng.random((200, 3, 4, 3)), 5)
    dapo, plain = (simulate(environment, partial(DAPO, adapt=adapt, **PARAMETERS), 200, 5, 1) for adapt in (1, 0))
    assert (dapo.regret[-1] != plain.regret[-1]).all()


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
def test_expected_loss_is_the_mean_of_the_sampled_one(noise, rng):
    """4000 runs of 30 episodes, the difference within 4 standard errors: 6e-5 by chance for a right program.

    The standard error is below 0.1 of a total of some 45: a mistake worth 0.6 in 30 episodes, 1.5 % of the losses, is
    seen with probability 0.98 or more. The learner moves, so the pairing of policy and losses is tested along the way.
    """
    K, R = 30, 4000
    losses = rng.random((K, 3, 3, 2))
    environment = Environment(random_model(rng, 3, 3, 2), ArrayLosses(losses, noise), 3)
    result = simulate(environment, partial(DAPO, step_size=0.3, exploration=0.1), K, R, 5, checkpoints=[10, 30])
    difference = result.sampled_loss - result.expected_loss
    error = difference.std(1, ddof=1) / np.sqrt(R)
    assert (error < 0.1).all()
    assert (np.abs(difference.mean(1)) < 4 * error).all()


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 3, 2), (3, 1, 2), (3, 2, 1), (2, 2, 3)])
def test_comparators_against_every_deterministic_policy(sizes, rng):
    H, S, A = sizes
    mdp, losses = random_model(rng, H, S, A), rng.random((6, H, S, A))
    result = simulate(Environment(mdp, losses), "uniform", 6, 2, 0, checkpoints=range(1, 7))
    totals = np.cumsum(losses, axis=0)
    own = [reference_loop.least_loss(mdp.transitions, mdp.initial, total) for total in totals]
    np.testing.assert_allclose(result.comparator_loss[:, 0], own, atol=1e-13)
    uniform = np.full((H, S, A), 1 / A)
    expected = [reference_loop.expected_loss(mdp.transitions, mdp.initial, uniform, total) for total in totals]
    np.testing.assert_allclose(result.regret, np.repeat(np.subtract(expected, own)[:, None], 2, 1), atol=1e-13)
    assert (result.final_regret[-1] == result.regret[-1]).all()
    assert (result.final_regret <= result.regret + 1e-12).all()  # its comparator is no better before the end


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("learner", [DAPO, DOPPO])
def test_other_array_libraries_and_plain_kernels_give_the_same_numbers(learner, noise, rng):
    """1e-12 of losses of order 100: summation order only."""
    losses = ArrayLosses(rng.random((80, 3, 4, 2)), noise)
    environment = Environment(random_model(rng, 3, 4, 2), losses, rng.integers(0, 20, 80))
    play = partial(simulate, environment, partial(learner, step_size=0.05, exploration=0.1), 80, 6, 3)
    compiled = play()
    with kernels.using("numpy"):
        plain = play()
    strict = play(xp=array_api_strict)
    for other in (plain, strict):
        np.testing.assert_array_equal(other.sampled_loss, compiled.sampled_loss)
        np.testing.assert_allclose(other.expected_loss, compiled.expected_loss, rtol=1e-12)
        np.testing.assert_allclose(other.regret, compiled.regret, rtol=1e-12, atol=1e-10)


def test_policies_may_come_without_a_run_axis_and_in_any_layout(rng):
    """(H, S, A); Fortran order; a view; integers for a deterministic policy: the same numbers."""
    mdp = random_model(rng, 3, 4, 2)
    environment = Environment(mdp, rng.random((3, 4, 2)))
    policy = np.eye(2)[rng.integers(0, 2, (3, 4))]
    wide = np.repeat(policy[..., None], 6, -1)
    forms = [policy, wide, np.asfortranarray(wide), np.repeat(wide, 2, -1)[..., ::2], wide.astype(int), wide > 0.5]
    forms += [policy.astype(np.float32), np.broadcast_to(policy[..., None], wide.shape)]
    results = [simulate(environment, lambda problem, form=form: Fixed(form), 5, 6, 0) for form in forms]
    for result in results:
        np.testing.assert_array_equal(result.regret, results[0].regret)
        np.testing.assert_array_equal(result.sampled_loss, results[0].sampled_loss)


class Fixed:
    def __init__(self, policy):
        self.policy = policy

    def act(self, k):
        return self.policy

    def learn(self, k, arrivals):
        pass


def test_a_policy_that_its_learner_overwrites_was_copied(rng):
    """The feedback of a delayed episode holds the policy that played it, though the learner reuses its array."""
    given = [random_policy(rng, 2, 3, 2, 4) for _ in range(6)]
    seen = {}

    class Overwriting:
        def __init__(self, problem):
            self.array = np.empty((2, 3, 2, 4))

        def act(self, k):
            self.array[:] = given[k]
            return self.array

        def learn(self, k, arrivals):
            seen.update({j.episode: j.policy for j in arrivals})

    simulate(Environment(random_model(rng, 2, 3, 2), rng.random((2, 3, 2)), 2), Overwriting, 6, 4)
    assert sorted(seen) == [0, 1, 2, 3]
    for episode, policy in seen.items():
        np.testing.assert_array_equal(policy, given[episode])
