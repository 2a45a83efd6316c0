"""Best-of-both-worlds learners in simulations: runs apart, delays, array libraries, parameters, hard numbers."""

from __future__ import annotations

import warnings
from functools import partial

import array_api_strict
import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, kernels, simulate
from tabpo.environments import ArrayLosses
from tabpo.learners import LEARNERS
from tests.bobw_pieces import EVERY, problem, random_model, recorded

H, S, A, K = 3, 4, 3, 60
every_learner = pytest.mark.parametrize("name", EVERY)
SETTINGS = [
    {"tuning": "practical"},
    {"tuning": "practical", "transitions": "unknown", "width_scale": 0.1, "exploration": 1},
    {"tuning": "theory", "initial_rate": 700.0},
]
every_setting = pytest.mark.parametrize("given", SETTINGS, ids=["practical", "unknown", "theory"])


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(9)
    mdp = random_model(rng, H, S, A, np.array([0.5, 0.3, 0.2, 0.0]))
    return mdp, ArrayLosses(rng.random((K, H, S, A)), "bernoulli"), rng.integers(0, 12, K)


def few(name, given):
    """Return how many episodes to play: the log-barrier's virtual ones take their time."""
    return 8 if name == "log_barrier" and given["tuning"] == "theory" else K


@every_learner
@every_setting
def test_a_run_is_the_same_alone_and_beside_others(world, name, given):
    make = partial(EVERY[name], **given)
    n = few(name, given)
    mdp, losses, delays = world
    environment = Environment(mdp, ArrayLosses(losses.losses[:n], "bernoulli"), delays[:n])
    _, together, policies = recorded(environment, make, n, 5)
    for r in (0, 3):
        _, alone, single = recorded(environment, make, n, 1, runs=[r])
        np.testing.assert_array_equal(single[..., 0], policies[..., r])
        assert alone.largest_condition[0] == together.largest_condition[r]


@every_learner
@every_setting
def test_parameters_per_run_are_those_of_runs_apart(world, name, given):
    rate = {} if name == "log_barrier" else {"rate": [0.4, 1.0]}
    several = {"initial_rate": [700.0, 900.0], "bonus_scale": [0.1, 0.7], "bias_scale": [0.3, 1.0], **rate}
    n = few(name, given)
    mdp, losses, delays = world
    environment = Environment(mdp, losses.losses[:n], delays[:n])
    _, _, policies = recorded(environment, partial(EVERY[name], **{**given, **several}), n, 2)
    for r in range(2):
        one = {key: values[r] for key, values in several.items()}
        _, _, single = recorded(environment, partial(EVERY[name], **{**given, **one}), n, 1, runs=[r])
        np.testing.assert_array_equal(single[..., 0], policies[..., r])


@every_learner
@pytest.mark.parametrize("given", SETTINGS[:2], ids=["practical", "unknown"])
def test_the_ratio_matters_for_late_feedback_only(world, name, given):
    """Delays of up to 11 episodes arrive out of order; of fresh feedback the ratio is 1, to the last bit."""
    mdp, losses, delays = world
    arrivals = np.arange(K) + delays
    assert (np.diff(arrivals) < 0).any()
    for late in (False, True):
        runs = [
            recorded(Environment(mdp, losses, delays if late else 0), partial(EVERY[name], adapt=adapt, **given), K)[2]
            for adapt in (True, False)
        ]
        assert np.isfinite(runs[0]).all()
        assert (np.abs(runs[0] - runs[1]).max() > 1e-4) == late
        assert late or (runs[0] == runs[1]).all()


@every_learner
@pytest.mark.parametrize("given", SETTINGS[:2], ids=["practical", "unknown"])
def test_other_arrays(world, name, given):
    """Plain NumPy within 1e-12 of the compiled kernels; and arrays that know nothing beyond the standard."""
    mdp, losses, delays = world
    environment, n = Environment(mdp, ArrayLosses(losses.losses[:12], "bernoulli"), delays[:12]), 12
    make = partial(EVERY[name], **given)
    _, _, compiled = recorded(environment, make, n)
    with kernels.using("numpy"):
        _, _, plain = recorded(environment, make, n)
    np.testing.assert_allclose(plain, compiled, rtol=0, atol=1e-12)
    strict = simulate(environment, make, n, 3, 11, xp=array_api_strict)
    np.testing.assert_allclose(strict.regret, simulate(environment, make, n, 3, 11).regret, rtol=0, atol=1e-12)


def test_virtual_episodes_with_other_arrays(rng):
    environment = Environment(random_model(rng, 2, 2, 2), rng.random((2, 2, 2)))
    results = [simulate(environment, EVERY["log_barrier"], 1, 2, xp=xp) for xp in (np, array_api_strict)]
    np.testing.assert_allclose(results[1].regret, results[0].regret, rtol=0, atol=1e-12)
    assert results[0].settings["n_virtual_episodes"] == results[1].settings["n_virtual_episodes"]
    assert np.min(results[0].settings["n_virtual_episodes"]) > 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tuning": "best"}, "tuning must be 'theory' or 'practical', got 'best'"),
        ({"transitions": "guessed"}, "transitions must be 'known' or 'unknown', got 'guessed'"),
        ({"exploration": -0.1}, "exploration must be a number, finite and at least 0, got -0.1"),
        ({"exploration": float("nan")}, "exploration must be a number, finite and at least 0, got nan"),
        ({"exploration": "much"}, "exploration must be a number, finite and at least 0, got 'much'"),
        ({"exploration": [0.1, 1.0]}, "exploration must be a number"),
        ({"initial_rate": -1.0}, "initial_rate must be finite and at least 0, got -1.0"),
        ({"initial_rate": float("inf")}, "initial_rate must be finite and at least 0, got inf"),
        ({"bonus_scale": float("nan")}, "bonus_scale must be finite and at least 0, got nan"),
        ({"bonus_scale": "much"}, "bonus_scale must be a number or one number per run, got 'much'"),
        ({"bias_scale": -1.0}, "bias_scale must be finite and at least 0, got -1.0"),
        ({"bias_scale": [1.0, 1.0, 1.0]}, r"bias_scale must be a number or one number per run \(2\)"),
        ({"transitions": "unknown", "width_scale": -1.0}, "width_scale must be finite and at least 0"),
        ({"transitions": "unknown", "radius": "wide"}, "'wide'"),
        ({"transitions": "unknown", "failure_probability": 1.5}, r"failure_probability must be in \(0, 1\), got 1.5"),
        ({"transitions": "unknown", "counts": "late"}, "counts must be 'immediate' or 'lagged', got 'late'"),
    ],
    ids=str,
)
@every_learner
def test_bad_parameters_get_a_sentence(world, name, given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        EVERY[name](problem(world[0], n_runs=2), **given)


@pytest.mark.parametrize("name", ["tsallis", "shannon"])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rate": 0.0}, "rate must be finite and positive, got 0.0"),
        ({"rate": [1.0, -1.0]}, "rate must be finite and positive, got -1.0"),
        ({"indexing": "slides"}, "indexing must be 'self_timed' or 'paper', got 'slides'"),
    ],
    ids=str,
)
def test_bad_schedules_get_a_sentence(world, name, given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        EVERY[name](problem(world[0], n_runs=2), **given)


def test_the_log_barrier_begins_with_a_step_size(world):
    with pytest.raises(InvalidInputError, match="initial_rate must be finite and positive, got 0"):
        EVERY["log_barrier"](problem(world[0]), initial_rate=0.0)


def test_settings_are_the_resolved_parameters(world):
    mdp, losses, _ = world
    told = simulate(
        Environment(mdp, losses), partial(EVERY["tsallis"], tuning="practical", rate=[0.5, 1.0]), K, 2
    ).settings
    assert (told["initial_rate"], told["exploration"], told["bonus_scale"], told["rate"]) == (0, 0, 0.5, [0.5, 1.0])
    assert told["transitions"] == "known"
    assert (np.array(told["largest_condition"]) > 1).all()
    assert (np.array(told["condition_violated_until"]) >= 1).all()
    told = simulate(Environment(mdp, losses), partial(EVERY["log_barrier"], tuning="practical"), K, 2).settings
    assert (told["initial_rate"], told["bonus_scale"], told["n_virtual_episodes"]) == (3, 0.2, 0)


def test_registry():
    assert [LEARNERS[f"bobw_{name}"] for name in EVERY] == list(EVERY.values())


def chain(horizon):
    """Action 0 stays in state 0, at 0.5 a step but for the last, which is free; action 1 leaves for 0.45 a step."""
    step = np.zeros((horizon, 2, 2, 2))
    step[:, 0, 0, 0] = step[:, 0, 1, 1] = step[:, 1, :, 1] = 1
    losses = np.full((horizon, 2, 2), 0.5)
    losses[:, 1], losses[-1, 0, 0] = 0.45, 0
    return Environment(TabularMDP(step, np.array([1.0, 0.0])), losses)


@pytest.mark.parametrize("given", [{"bonus_scale": 0.0}, {}], ids=["no bonus", "bonus"])
def test_occupancies_that_underflow(given):
    """30 steps in one direction, with large step sizes: occupancies pass through the least numbers to 0."""
    make = partial(EVERY["shannon"], tuning="practical", rate=0.01, initial_rate=0.01, **given)
    environment = chain(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result, built, policies = recorded(environment, make, 300, 8, 1)
    assert np.isfinite(result.regret).all()
    assert np.isfinite(built.rates.inverse_step).all()
    staying = policies[:, :, 0, 0].prod(axis=1)  # the occupancy of state 0 after the last step, (K, R)
    assert given == {} or ((staying > 0) & (staying < 1e-307)).any()
