"""Plain, compiled and array-generic kernels agree; the compiled ones do not depend on the runs beside."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction

import array_api_strict
import numpy as np
import pytest

from tabpo import kernels
from tabpo.errors import InvalidInputError
from tabpo.kernels import SharedMatrix, Transitions, compiled, ftrl, plain, plain_ftrl
from tests.conftest import random_policy

# Sums of at most a few hundred terms of order 1, in another order: 1e-12 is a thousand times their rounding.
TOLERANCE = 1e-12

ALL_KERNELS = (*kernels.KERNELS, *kernels.FTRL_KERNELS)


def versions(name: str) -> tuple:
    """Return a kernel's plain and its compiled version."""
    return tuple(getattr(m, name) for m in ((plain_ftrl, ftrl) if name in kernels.FTRL_KERNELS else (plain, compiled)))


def arguments(name: str, rng: np.random.Generator, H: int, S: int, A: int, R: int) -> tuple:
    model = Transitions(rng.dirichlet(np.full(S, 0.3), (H, S, A)))
    initial = rng.dirichlet(np.ones(S))
    acting, arrival = random_policy(rng, H, S, A, R), random_policy(rng, H, S, A, R)
    occupancy = plain.state_occupancy(model.dense, initial, acting)
    uniforms = rng.random((2 * H, R))
    states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
    losses, rates = rng.random((H, S, A)), rng.random(R) / 10 + 0.01
    return {
        "exponential_weights": (np.log(acting), rng.normal(size=(H, S, A, R)) * 30, rates),
        "state_occupancy": (model, initial, acting),
        "next_occupancy": (model, occupancy[0], acting, 0),
        "backup": (model, occupancy[0], 0),
        "expected_loss": (occupancy, acting, losses[..., None]),
        "q_values": (model, occupancy[:, :, None, :], acting, 1 / H),
        "sample_trajectories": (model.table, kernels.inverse_cdf_table(initial), acting, uniforms),
        "at_trajectory": (acting, states, actions),
        "add_at_trajectory": (acting, states, actions, uniforms[:H]),
        "importance_weighted": (uniforms[:H], acting, arrival, occupancy, states, actions, rates, True),
        "exploration_bonus": (acting, arrival, occupancy, rates, 2 * rates, True),
        "product": (SharedMatrix(model.dense[0, 0]), rng.normal(size=(S, R))),
        "inverse": (np.where(occupancy < 0.1, 0.0, occupancy),),
        "accumulate": (rng.exponential(size=(H, S, A, R)), rng.normal(size=(H, S, A, R))),
        "tsallis_spread": (acting,),
        "leader_entropy": (*leaders(rng, H, S, A, R),),
        "with_bias": (occupancy, rng.random((H, S, R)), acting),
        "largest_step": (rng.random((H, S, A, R)), acting, rng.random((H, S, 1 if R % 2 else A, R)), 0.5),
        "at_states": (acting, states),
        "add_at_states": (acting, states, rng.random((H, A, R))),
    }[name]


def leaders(rng: np.random.Generator, H: int, S: int, A: int, R: int) -> tuple:
    """Return Shannon leaders, some of them all but deterministic, with the losses and step sizes that they lead for."""
    losses, step_size = rng.exponential(size=(H, S, A, R)), 10 ** rng.uniform(-2, 2, (H, S, R))
    return kernels.shannon_leader(losses, step_size), losses, step_size


def run(function, args):
    result = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("sizes", [(4, 5, 3, 7), (1, 1, 1, 1), (2, 13, 4, 1), (3, 2, 6, 70), (5, 9, 2, 16)])
@pytest.mark.parametrize("name", ALL_KERNELS)
def test_versions_agree(name, sizes, rng):
    args = arguments(name, rng, *sizes)
    dense = tuple(getattr(a, "dense", a) for a in args)
    strict = tuple(array_api_strict.asarray(a) if isinstance(a, np.ndarray) else a for a in dense)
    plain_version, compiled_version = versions(name)
    reference = run(plain_version, dense)
    for other in (
        run(getattr(kernels, name), args),
        run(compiled_version, args),
        run(getattr(kernels, name), strict),
    ):
        for expected, got in zip(reference, other, strict=True):
            np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", ALL_KERNELS)
def test_a_run_is_the_same_alone_and_beside_others(name, rng):
    H, S, A, R = 3, 11, 5, 37
    args = arguments(name, rng, H, S, A, R)
    _, compiled_version = versions(name)
    together = run(compiled_version, args)
    for r in (0, 17, 36):
        one = tuple(
            np.ascontiguousarray(a[..., r : r + 1]) if isinstance(a, np.ndarray) and a.shape[-1] == R else a
            for a in args
        )
        for whole, alone in zip(together, run(compiled_version, one), strict=True):
            np.testing.assert_array_equal(whole[..., r], alone[..., 0])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("version", [plain_ftrl, ftrl])
def test_largest_step_over_steps_states_and_actions(version, power, rng):
    values, step_size = rng.random((2, 3, 4, 5)), rng.random((2, 3, 4, 5))
    policy = random_policy(rng, 2, 3, 4, 5)
    for shared in (False, True):
        step = step_size[:, :, :1].copy() if shared else step_size
        by_hand = [0.0] * 5
        for h, s, a, r in np.ndindex(2, 3, 4, 5):
            eta = step_size[h, s, 0 if shared else a, r]
            by_hand[r] = max(by_hand[r], eta * values[h, s, a, r] * policy[h, s, a, r] ** power)
        np.testing.assert_allclose(version.largest_step(values, policy, step, power), by_hand, rtol=1e-14)


@pytest.mark.parametrize("version", [plain_ftrl, ftrl])
def test_entropy_of_leaders_is_that_of_their_probabilities(version, rng):
    """By its definition; of leaders that have underflowed to one action it is 0."""
    policy, losses, step_size = leaders(rng, 3, 5, 4, 6)
    by_hand = -np.sum(policy * np.log(np.where(policy > 0, policy, 1.0)), axis=2)
    np.testing.assert_allclose(version.leader_entropy(policy, losses, step_size), by_hand, rtol=0, atol=1e-12)
    losses[:, :, 0], step_size[...] = 0.0, 1e6
    policy = kernels.shannon_leader(losses, step_size)
    np.testing.assert_array_equal(version.leader_entropy(policy, losses, step_size), 0)


@pytest.mark.parametrize("version", [plain_ftrl, ftrl])
def test_inverse_of_what_never_happens_is_zero(version):
    """The least numbers have inverses beyond float64, and the next have sums of inverses beyond it."""
    values = np.array([0.0, 5e-324, 1e-310, 1e-300, 2.0**-959, 0.5])
    inverse = version.inverse(values)
    np.testing.assert_array_equal(inverse, [0, 0, 0, 0, 2.0**959, 2])
    assert np.isfinite(1e12 * inverse).all()


def test_exponential_is_within_one_unit_in_the_last_place(rng):
    points = np.concatenate([-rng.random(2000) * 708, -rng.random(2000), [-0.0, 0.0, -708.0, -1e-300]])
    worst = 0.0
    for x in points:
        expected = math.exp(x)
        worst = max(
            worst,
            abs(Fraction(compiled.exp_nonpositive(x)) - Fraction(expected)) / Fraction(math.ulp(expected)),
        )
    assert worst <= 2  # one for ours, one for the library's that it is held against
    assert compiled.exp_nonpositive(-709.0) == 0.0
    assert compiled.exp_nonpositive(-np.inf) == 0.0
    assert np.isnan(compiled.exp_nonpositive(np.nan))


def test_inverse_cdf_ends_in_exactly_one_at_the_last_possible_outcome():
    probabilities = np.array([0.1] * 10 + [0.0, 0.0])  # the sum of the ten is below 1
    table = kernels.inverse_cdf_table(probabilities)
    assert np.cumsum(probabilities)[9] < 1
    assert table[9] == 1.0
    largest = np.nextafter(1.0, 0.0)
    assert int(np.sum(table <= largest)) == 9


@pytest.mark.parametrize("version", [plain, compiled])
def test_sampling_never_takes_an_impossible_action(version):
    policy = np.array([0.1] * 10 + [0.0])[None, None, :, None]
    uniforms = np.array([[0.0], [np.nextafter(1.0, 0.0)]])
    _, actions = version.sample_trajectories(np.ones((1, 1, 11, 1)), np.ones(1), policy, uniforms)
    assert actions[0, 0] == 9


def test_sampling_follows_the_model(rng):
    """10^5 draws: each frequency is within 5 standard errors; a wrong index would be off by hundreds of them."""
    H, S, A, R = 3, 3, 2, 100_000
    model = Transitions(rng.dirichlet(np.ones(S), (H, S, A)))
    initial = rng.dirichlet(np.ones(S))
    policy = np.repeat(random_policy(rng, H, S, A, 1), R, axis=-1)
    states, actions = kernels.sample_trajectories(
        model.table, kernels.inverse_cdf_table(initial), policy, rng.random((2 * H, R))
    )
    occupancy = plain.state_occupancy(model.dense, initial, policy[..., :1])[..., 0][:, :, None] * policy[..., 0]
    for h, s, a in np.ndindex(H, S, A):
        frequency = np.mean((states[h] == s) & (actions[h] == a))
        expected = occupancy[h, s, a]
        assert abs(frequency - expected) < 5 * math.sqrt(expected * (1 - expected) / R) + 1e-12


def test_backend_is_chosen_by_arrays_and_setting(rng):
    args = arguments("exploration_bonus", rng, 2, 3, 2, 4)
    compiled_result = kernels.exploration_bonus(*args)
    with kernels.using("numpy"):
        assert kernels.backend() == "numpy"
        np.testing.assert_array_equal(kernels.exploration_bonus(*args), plain.exploration_bonus(*args))
    assert kernels.backend() == "numba"
    np.testing.assert_array_equal(kernels.exploration_bonus(*args), compiled_result)
    others = [array_api_strict.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    assert isinstance(kernels.exploration_bonus(*others), type(others[0]))
    with pytest.raises(InvalidInputError, match="'fortran'; it must be 'numba'"), kernels.using("fortran"):
        pass


def test_backend_from_the_environment():
    code = "import tabpo.kernels as k; print(k.backend())"
    for value, expected in (("numpy", "numpy\n"), ("cuda", "")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TABPO_KERNELS": value},
        )
        assert done.stdout == expected
    assert "TABPO_KERNELS is 'cuda'; it must be 'numba' (the default), 'numpy' or 'cupy'" in done.stderr


def test_compiles_without_a_writable_cache(tmp_path):
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
        "import tabpo.kernels.compiled as k, numpy as np\n"
        "print(k.exponential_weights(np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 2, 1)), np.ones(1))[1].ravel())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "[0.5 0.5]", done.stderr
