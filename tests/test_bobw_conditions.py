"""Condition CB holds with the theory's constants, and virtual episodes stay within their number."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP
from tabpo.environments import MDPS, BernoulliLosses
from tabpo.learners import LogBarrierPO, bobw_rates
from tests.bobw_pieces import EVERY, random_model, recorded

every_learner = pytest.mark.parametrize("name", EVERY)


def rarely_reached(probability=0.01):
    """Two steps: state 1 of the second one is reached with this probability at most, by action 1."""
    step = np.zeros((2, 2, 2, 2))
    step[..., 0] = 1
    step[:, :, 1] = [1 - probability, probability]
    return TabularMDP(step, np.array([1.0, 0.0]))


def models():
    rng = np.random.default_rng(2)
    return {
        "random": random_model(rng, 3, 2, 2),
        "one state": random_model(rng, 3, 1, 3),
        "one step": random_model(rng, 1, 2, 2),
        "rarely reached": rarely_reached(),
        "chain": MDPS["exploration_chain"](horizon=3),
    }


MODELS = models()


@pytest.mark.parametrize("model", MODELS)
@every_learner
def test_the_theory_never_breaks_condition_cb(name, model):
    """With the bias part. The largest value was 0.15 (log-barrier, on the chain): the constants are far too large."""
    n_episodes = 12 if name == "log_barrier" else 200
    result, _, _ = recorded(Environment(MODELS[model], BernoulliLosses()), EVERY[name], n_episodes)
    largest = np.max(result.settings["largest_condition"])
    assert 0 < largest < 0.2
    assert result.settings["condition_violated_until"] == 0


@pytest.mark.parametrize("name", ["tsallis", "shannon"])
def test_nor_without_the_transitions(name):
    environment = Environment(MODELS["random"], BernoulliLosses())
    result, _, _ = recorded(environment, partial(EVERY[name], transitions="unknown"), 100)
    assert 0 < np.max(result.settings["largest_condition"]) < 0.2


@pytest.mark.parametrize("name", ["tsallis", "shannon"])
def test_practical_constants_break_it_at_first(name):
    """For the last time in episode 21, as recorded; the rates then have grown."""
    make = partial(EVERY[name], tuning="practical", bonus_scale=1.0)
    result, _, _ = recorded(Environment(MODELS["random"], BernoulliLosses()), make, 1000)
    assert np.min(result.settings["largest_condition"]) > 1
    last = np.array(result.settings["condition_violated_until"])
    assert ((last > 0) & (last < 100)).all()


def test_what_the_condition_is_by_hand():
    """Tsallis, H = 2, one state, two actions, nothing learned yet: 4 H eta sqrt(1/2) B of the first step is largest.

    c_0 = 1, c_1 = 1/2: 1/eta_1 = 1 + 2 / 2 sqrt(1) = 2, xi = sqrt(2)/2, and eta w = 1/2 exceeds 1/8, so that at both
    steps b = 1/2 (2 - 1) (sqrt(2)/2 + sqrt(2)/4); B = b + 3/2 b.
    """
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1))
    result, _, _ = recorded(
        Environment(mdp, np.ones((2, 1, 2))), partial(EVERY["tsallis"], tuning="practical", initial_rate=1.0), 1
    )
    bonus = 2.5 * 0.5 * 0.75 * math.sqrt(2)
    assert result.settings["largest_condition"] == pytest.approx(8 / 2 * math.sqrt(0.5) * bonus)
    assert result.settings["condition_violated_until"] == 1


@pytest.mark.parametrize("model", ["random", "rarely reached", "one step"])
def test_number_of_virtual_episodes(model):
    """At most (kappa_v ln T + 1) ln(eta_1 / eta_{T+1}) of them for each (s, a), since ln(1 + 1/x) >= 1/(x + 1)."""
    K, mdp = 20, MODELS[model]
    result, built, _ = recorded(Environment(mdp, BernoulliLosses()), LogBarrierPO, K, 2)
    H, rates = mdp.horizon, built.rates
    growth = np.log(rates.inverse_step / rates.initial)
    assert (rates.n_virtual >= 1).all()
    assert (rates.n_virtual <= ((66 * H * math.log(K) + 1) * growth).sum(axis=(0, 1, 2))).all()
    np.testing.assert_array_equal(np.broadcast_to(result.settings["n_virtual_episodes"], 2), rates.n_virtual)
    # afterwards rho = 1/(21 H^2) is kept, for the gamma and the bounds that the last episode had
    assert (rates.eta / built.played.denominator[:, :, None, :]).max() <= 1 / (21 * H**2) * (1 + 1e-12)


def test_virtual_episodes_can_be_left_out_or_added():
    environment = Environment(MODELS["random"], BernoulliLosses())
    counts = [
        recorded(environment, partial(LogBarrierPO, **given), 8)[1].rates.n_virtual.max()
        for given in (
            {},
            {"virtual_episodes": False},
            {"tuning": "practical", "initial_rate": 200.0},
            {"tuning": "practical", "initial_rate": 200.0, "virtual_episodes": True},
        )
    ]
    assert [count > 0 for count in counts] == [True, False, False, True]


def test_the_ablation_has_no_bonus_in_virtual_episodes_either():
    """Without losses, then, nothing ever moves, nor condition CB."""
    environment = Environment(MODELS["random"], np.zeros(MODELS["random"].shape))
    result, built, _ = recorded(environment, partial(LogBarrierPO, bonus_scale=0.0, bias_scale=0.0), 8)
    assert (built.rates.n_virtual > 0).all()
    assert result.settings["largest_condition"] == 0
    np.testing.assert_array_equal(built.losses, 0)


def test_virtual_episodes_of_a_run_do_not_move_the_others():
    environment = Environment(MODELS["one step"], BernoulliLosses())
    together, built, _ = recorded(environment, partial(LogBarrierPO, initial_rate=[10.0, 21.0, 60.0]), 6)
    for r, rate in enumerate([10.0, 21.0, 60.0]):
        alone, single, _ = recorded(environment, partial(LogBarrierPO, initial_rate=rate), 6, 1, runs=[r])
        np.testing.assert_array_equal(alone.expected_loss[:, 0], together.expected_loss[:, r])
        assert single.rates.n_virtual[0] == built.rates.n_virtual[r]
    assert len(set(built.rates.n_virtual)) == 3


def test_too_many_virtual_episodes_get_a_sentence(monkeypatch):
    monkeypatch.setattr(bobw_rates, "MOST_VIRTUAL", 20)
    with pytest.raises(InvalidInputError, match=r"asks for [\d,]+ virtual episodes before .* use tuning='practical'"):
        recorded(Environment(MODELS["random"], BernoulliLosses()), LogBarrierPO, 100)


def test_states_out_of_reach_ask_for_none():
    """Without exploration their 1/d is 0, not infinite."""
    mdp = random_model(np.random.default_rng(0), 2, 2, 2, np.array([1.0, 0.0]))
    result, built, _ = recorded(Environment(mdp, BernoulliLosses()), partial(LogBarrierPO, exploration=0), 5)
    assert np.isfinite(result.regret).all()
    np.testing.assert_array_equal(
        built.rates.inverse_step[0, 1], built.rates.initial + 0 * built.rates.inverse_step[0, 1]
    )
