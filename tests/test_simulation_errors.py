"""What is wrong gets a sentence: policies that are none, checkpoints, arguments, too large a simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabpoError, TabularMDP, simulate
from tabpo.learners import DAPO, DelayedHedge
from tabpo.simulation import checkpoint_episodes
from tests.conftest import random_policy

K = 40


def random_model(rng, H, S, A):
    return TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S)))


@pytest.fixture
def environment(rng):
    return Environment(random_model(rng, 2, 3, 2), rng.random((K, 2, 3, 2)), [0, 3, 9, 1] * 10)


class Faulty:
    """Returns a policy that a change spoiled, in one episode."""

    def __init__(self, policy, change, episode):
        self.policy, self.change, self.episode = policy, change, episode

    def act(self, k):
        policy = self.policy.copy()
        return self.change(policy) if k == self.episode else policy

    def learn(self, k, arrivals):
        pass


def with_entry(value, *where):
    def change(policy):
        policy[where] = value
        return policy

    return change


def moved(policy):  # sums to one, but not of probabilities
    policy[1, 2, 0, 3] -= 2
    policy[1, 2, 1, 3] += 2
    return policy


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p[0], r"Faulty.act\(2\) must return an array \(H, S, A, R\) = \(2, 3, 2, 4\) or \(2, 3, 2\), got"),
        (lambda p: p[..., :1], r"got \(2, 3, 2, 1\)"),
        (lambda p: p.tolist(), "got list"),
        (lambda p: None, "got NoneType"),
        (with_entry(np.nan, 0, 1, 1, 2), r"Faulty.act\(2\) returned is nan at \(h, s, a, run\) = \(0, 1, 1, 2\)"),
        (with_entry(np.nan, 1, 1, 1, 2), r"returned is nan at \(h, s, a, run\) = \(1, 1, 1, 2\)"),
        (with_entry(np.inf, 1, 1, 1, 2), r"sums to inf over the actions at \(h, s, run\) = \(1, 1, 2\)"),
        (moved, r"returned is -1.*at \(h, s, a, run\) = \(1, 2, 0, 3\); probabilities must be at least 0"),
        (lambda p: p * 1.001, r"sums to 1.001 over the actions at \(h, s, run\) = \(0, 0, 0\); it must sum to 1"),
        (with_entry(0, 1, 2, slice(None), 3), r"sums to 0 over the actions at \(h, s, run\) = \(1, 2, 3\)"),
    ],
)
@pytest.mark.parametrize("checkpoints", [[3], [6]], ids=["seen", "between checkpoints"])
def test_a_policy_that_is_none_gets_a_sentence(change, sentence, checkpoints, rng):
    """Also at the last step, where nothing leaks into later states, and between checkpoints."""
    learner = Faulty(random_policy(rng, 2, 3, 2, 4), change, 2)
    environment = Environment(random_model(rng, 2, 3, 2), rng.random((2, 3, 2)))
    with pytest.raises(InvalidInputError, match=sentence):
        simulate(environment, lambda problem: learner, 6, 4, checkpoints=checkpoints)


def test_a_trusted_learner_cannot_spoil_the_regret_unseen(rng):
    """A learner that promises policies is checked at checkpoints only; a NaN still stops it."""
    learner = Faulty(random_policy(rng, 2, 3, 2, 4), with_entry(np.nan, 1, 1, 1, 2), 2)
    learner.returns_new_policies = True
    environment = Environment(random_model(rng, 2, 3, 2), rng.random((2, 3, 2)))
    with pytest.raises(TabpoError, match="the expected loss of Faulty is not finite after episode 5"):
        simulate(environment, lambda problem: learner, 6, 4, checkpoints=[6])


def test_an_absurd_step_size_ends_in_a_sentence_not_in_numbers(environment):
    with np.errstate(all="ignore"), pytest.raises(TabpoError, match="nan"):
        simulate(environment, partial(DAPO, step_size=1e308, exploration=1e-9), K, 2)


@pytest.mark.parametrize(
    ("checkpoints", "sentence"),
    [
        (0, "checkpoints must be an integer of at least 1"),
        (-3, "checkpoints must be an integer of at least 1"),
        ([], "checkpoints must be a number of checkpoints or a list of episode counts"),
        ([1.5, 2], "a list of episode counts"),
        ("many", "a list of episode counts"),
        ([[1, 2]], "a list of episode counts"),
        ([0, 5], r"checkpoints must increase within 1 ... 40 \(n_episodes\), got \[0, 5\]"),
        ([5, 5], "must increase"),
        ([7, 5], "must increase"),
        ([41], "must increase within 1 ... 40"),
    ],
)
def test_bad_checkpoints_get_a_sentence(checkpoints, sentence, environment):
    with pytest.raises(InvalidInputError, match=sentence):
        simulate(environment, "uniform", K, 1, checkpoints=checkpoints)


def test_checkpoints_are_log_spaced():
    episodes = checkpoint_episodes(10_000, 41)
    assert episodes[0] == 1
    assert episodes[-1] == 10_000
    steps = np.diff(np.log10(episodes[episodes > 100]))
    np.testing.assert_allclose(steps, 0.1, atol=0.005)  # rounding to whole episodes
    assert checkpoint_episodes(10_000, 1).tolist() == [10_000]
    assert checkpoint_episodes(1, None).tolist() == [1]
    assert checkpoint_episodes(5, 100).tolist() == [1, 2, 3, 4, 5]
    assert checkpoint_episodes(5, np.array([2])).tolist() == [2, 5]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_episodes": 0}, "n_episodes must be"),
        ({"n_episodes": 2.5}, "n_episodes must be"),
        ({"n_runs": 0}, "n_runs must be"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"runs": [1]}, "runs lists 1 indices, but n_runs is 2"),
        ({"runs": [1, -1]}, "a run's index must be an integer of at least 0, got -1"),
        ({"learner": "dappo"}, "dappo.*dapo"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, sentence, environment):
    with pytest.raises(InvalidInputError, match=sentence):
        simulate(
            replace(environment, delays=0),
            **{"learner": "uniform", "n_episodes": 3, "n_runs": 2, "seed": 0, **arguments},
        )


def test_policies_that_do_not_fit_into_memory_are_refused_before_the_first_episode(rng):
    environment = Environment(random_model(rng, 10, 20, 5), rng.random((10, 20, 5)), 50_000)
    with pytest.raises(InvalidInputError, match="up to 50000 episodes wait for feedback at once"):
        simulate(environment, "dapo", 100_000, 10_000)


def test_hedge_is_refused_where_it_has_too_many_policies(rng):
    environment = Environment(random_model(rng, 3, 6, 2), rng.random((3, 6, 2)))
    assert math.log(2**18) > math.log(10**5)
    with pytest.raises(InvalidInputError, match=r"A\^\(H S\) = 2\^18"):
        simulate(environment, DelayedHedge, 3)
