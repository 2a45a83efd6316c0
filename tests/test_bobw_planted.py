"""The slow loop of best-of-both-worlds policy optimization tells the mistakes that are easily made (known transitions).

Each learner below is wrong in one place; what agrees within 1e-10 in the tests of the loop is off by more than 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest

from tabpo import kernels
from tabpo.learners import best_of_both_worlds
from tests.bobw_pieces import environment, learner, random_model, recorded, reference_rates
from tests.reference_bobw import play

H, S, A, K, RUN = 3, 3, 3, 40, 1
PARAMETERS = {"tuning": "practical", "exploration": 1, "bonus_scale": 1.0}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(6)
    return random_model(rng, H, S, A), rng.random((K, H, S, A))


def distance(world, name, plant=lambda built: None):
    """Return how far the learner is from the loop once something was planted in it."""
    mdp, losses = world
    right = learner(name, **PARAMETERS)

    def make(problem):
        built = right(problem)
        plant(built)
        return built

    rates = reference_rates(name, (H, S, A), K, "practical", 1)
    rates.scale = 1.0
    expected = play(mdp, losses, np.zeros(K, int), rates, 1, 11, RUN)
    _, _, policies = recorded(environment(mdp, losses), make, K)
    return np.abs(policies[..., RUN] - expected.policies).max()


@pytest.mark.parametrize("name", ["tsallis", "tsallis paper", "shannon", "shannon paper", "log_barrier"])
def test_nothing_planted(world, name):
    assert distance(world, name) < 1e-10


@pytest.mark.parametrize("name", ["tsallis", "shannon", "log_barrier"])
def test_bias_bonus_without_its_factor(world, name, monkeypatch):
    monkeypatch.setattr(kernels, "with_bias", lambda bonus, bias, policy: (bonus + bias)[:, :, None, :] + 0 * policy)
    assert distance(world, name) > 1e-4


@pytest.mark.parametrize("name", ["tsallis", "shannon", "log_barrier"])
def test_bonus_of_the_next_step_not_dilated(world, name):
    def plant(built):
        built.dilation = 0.0

    assert distance(world, name, plant) > 1e-4


@pytest.mark.parametrize("name", ["tsallis", "shannon"])
def test_rates_that_do_not_weigh_by_occupancy(world, name):
    def plant(built):
        leader, advance = built.rates.leader, built.rates.advance
        built.rates.leader = lambda h, losses, weight: leader(h, losses, np.ones_like(weight))
        built.rates.advance = lambda policy, losses, weight: advance(policy, losses, np.ones_like(weight))

    assert distance(world, name, plant) > 1e-4


def test_log_barrier_rates_that_do_not_weigh_by_occupancy(world):
    def plant(built):
        at_states = built.rates.learn

        def learn(j, returns):
            kept = j.notes.denominator.copy()
            j.notes.denominator[...] = 1.0
            bonus = at_states(j, returns)
            j.notes.denominator[...] = kept
            return bonus

        built.rates.learn = learn

    assert distance(world, "log_barrier", plant) > 1e-4


def test_shannon_bonus_for_each_penalty_alone(world):
    """Stability is not covered episode by episode: the second part of the bonus pays for it, cumulatively."""

    def plant(built):
        built.rates.stability = 0.0

    assert distance(world, "shannon", plant) > 1e-4


@pytest.mark.parametrize(
    ("name", "given"), [("tsallis", "paper"), ("shannon", "paper"), ("tsallis paper", "self_timed")]
)
def test_the_other_indexing(world, name, given):
    def plant(built):
        built.rates.self_timed = given == "self_timed"

    assert distance(world, name, plant) > 1e-4


@pytest.mark.parametrize("name", ["tsallis", "shannon"])
def test_bonus_of_the_previous_policy(world, name):
    def plant(built):
        advance = built.rates.advance
        built.rates.advance = lambda policy, losses, weight: advance(built.policy, losses, weight)

    assert distance(world, name, plant) > 1e-4


@pytest.mark.parametrize("name", ["tsallis", "shannon", "log_barrier"])
def test_exploration_left_out_of_the_estimator(world, name):
    """mu for d = mu + gamma."""

    def plant(built):
        take_in = built.learn

        def learn(k, arrivals):
            for j in arrivals:
                j.notes.denominator[...] = j.state_occupancy
            take_in(k, arrivals)

        built.learn = learn

    assert distance(world, name, plant) > 1e-4


@pytest.mark.parametrize("name", ["tsallis", "shannon", "log_barrier"])
def test_loss_of_the_step_for_the_loss_to_go(world, name, monkeypatch):
    monkeypatch.setattr(best_of_both_worlds.estimators, "returns_to_go", lambda losses: losses)
    assert distance(world, name) > 1e-4
