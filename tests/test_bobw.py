"""Best-of-both-worlds policy optimization, known transitions, against a slow loop by other means."""

from __future__ import annotations

import numpy as np
import pytest

from tabpo import kernels
from tests.bobw_pieces import default_exploration, environment, learner, random_model, recorded, reference_rates
from tests.reference_bobw import play

H, S, A, K = 3, 3, 3, 40
NAMES = ["tsallis", "tsallis paper", "shannon", "shannon paper", "log_barrier"]
# Q estimates of up to 1e3 and 40 episodes: what the two leave of 1e-16 in each policy stays below 1e-11.
TOLERANCE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    mdp = random_model(rng, H, S, A, np.array([0.5, 0.0, 0.5]))  # state 1 is not reached at step 0
    return mdp, rng.random((K, H, S, A)), rng.integers(0, 9, K)


def assert_same(world, name, parameters, rates, c, delays, run=2, **others):
    mdp, losses, _ = world
    result, built, policies = recorded(
        environment(mdp, losses, delays),
        learner(name, **parameters),
        len(losses),
        checkpoints=range(1, len(losses) + 1),
    )
    expected = play(mdp, losses, np.broadcast_to(delays, len(losses)), rates, c, 11, run, **others)
    np.testing.assert_allclose(policies[..., run], expected.policies, **TOLERANCE)
    np.testing.assert_allclose(np.diff(result.expected_loss[:, run], prepend=0), expected.expected, **TOLERANCE)
    np.testing.assert_allclose(built.largest_condition[run], expected.largest, rtol=1e-9)
    shifted = expected.L - expected.L.min(axis=2, keepdims=True)
    np.testing.assert_allclose(built.losses[..., run], shifted, rtol=1e-9, atol=1e-9)
    return built


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
@pytest.mark.parametrize("c", [0, 1])
def test_practical_tuning(world, name, c, delayed):
    delays = world[2] if delayed else 0
    rates = reference_rates(name, (H, S, A), K, "practical", c)
    assert_same(world, name, {"tuning": "practical", "exploration": c}, rates, c, delays)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
def test_theory_with_a_short_start(world, name, delayed):
    """The theory's coefficients with a small c_0, so that the policies move; virtual episodes are below."""
    delays = world[2] if delayed else 0
    given = {"virtual_episodes": False} if name == "log_barrier" else {}
    rates = reference_rates(name, (H, S, A), K, "theory", 2.5, initial=1.5)
    built = assert_same(world, name, {"initial_rate": 1.5, "exploration": 2.5, **given}, rates, 2.5, delays)
    assert np.abs(built.policy - 1 / A).max() > 0.01


@pytest.mark.parametrize("name", NAMES[:4])
def test_the_theory_as_it_is(world, name):
    c = default_exploration(name, H, A)
    assert_same(world, name, {}, reference_rates(name, (H, S, A), K, "theory", c), c, 0)


@pytest.mark.parametrize("sizes", [(2, 2, 2, 8), (1, 2, 3, 20)], ids=str)
def test_log_barrier_theory_with_virtual_episodes(sizes):
    *sizes, n_episodes = sizes
    rng = np.random.default_rng(3)
    mdp = random_model(rng, *sizes, np.array([0.3, 0.7]))
    rates = reference_rates("log_barrier", tuple(sizes), n_episodes, "theory", 1.0, virtual=True)
    small = mdp, rng.random((n_episodes, *sizes)), None
    built = assert_same(small, "log_barrier", {}, rates, 1.0, 0)
    assert built.rates.n_virtual[2] == rates.n_virtual > 100


@pytest.mark.parametrize("name", NAMES)
def test_without_the_ratio_delayed_estimates_are_plain(world, name):
    rates = reference_rates(name, (H, S, A), K, "practical", 1)
    parameters = {"tuning": "practical", "exploration": 1, "adapt": False}
    assert_same(world, name, parameters, rates, 1, world[2], adapt=False)


@pytest.mark.parametrize("name", NAMES)
def test_plain_kernels(world, name):
    with kernels.using("numpy"):
        rates = reference_rates(name, (H, S, A), K, "practical", 1)
        assert_same(world, name, {"tuning": "practical", "exploration": 1}, rates, 1, world[2])
