"""Bounds over confidence sets, against enumerations of kernels and linear programmes."""

from __future__ import annotations

import itertools

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tabpo import confidence, kernels, planning
from tabpo.errors import InvalidInputError
from tests.confidence_pieces import TOLERANCE, random_set
from tests.conftest import golden, random_policy


def inside(rng: np.random.Generator, centre: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return transitions within the set: extreme ones for random values, mixed with the centre."""
    values = rng.random(centre.shape[:2])
    extreme = confidence.extreme_distribution(centre, radius, values, bool(rng.integers(2)))
    share = rng.random((*centre.shape[:3], 1))
    return share * extreme + (1 - share) * centre


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_golden_occupancy_bounds(backend):
    reference = golden("occupancy_bounds")
    with kernels.using(backend):
        for case in reference["cases"]:
            upper, lower = confidence.occupancy_bounds(
                *(np.array(case[name]) for name in ("centre", "radius", "initial", "policy"))
            )
            np.testing.assert_allclose(upper, case["upper_occupancy"], rtol=0, atol=reference["tolerance"])
            np.testing.assert_allclose(lower, case["lower_occupancy"], rtol=0, atol=reference["tolerance"])


@pytest.mark.parametrize("largest", [True, False])
def test_greedy_is_the_linear_programme(largest, rng):
    """HiGHS solves to 1e-9 or so; a wrong order of the states is off by tenths."""
    for S in (1, 2, 5, 11):
        centre, radius = (array[..., 0] for array in random_set(rng, 1, S, 3, 1, width=0.6))
        values = rng.normal(size=(1, S))
        q = confidence.extreme_distribution(centre, radius, values, largest)
        backup = (confidence.optimistic_backup if largest else confidence.pessimistic_backup)(centre, radius, values)
        np.testing.assert_allclose(backup, q @ values[0], rtol=0, atol=TOLERANCE)
        for s, a in np.ndindex(S, 3):
            low, high = np.maximum(centre - radius, 0)[0, s, a], np.minimum(centre + radius, 1)[0, s, a]
            assert np.all(q[0, s, a] >= low - TOLERANCE)
            assert np.all(q[0, s, a] <= high + TOLERANCE)
            assert abs(q[0, s, a].sum() - 1) < TOLERANCE
            sign = -1 if largest else 1
            best = linprog(
                sign * values[0], A_eq=np.ones((1, S)), b_eq=[1], bounds=np.column_stack([low, high]), method="highs"
            )
            assert abs(sign * best.fun - backup[0, s, a]) < 1e-8


def row_vertices(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return the corners of a row's set: all entries but one at a bound."""
    corners = []
    for free in range(low.size):
        others = [i for i in range(low.size) if i != free]
        for choice in itertools.product(*((low[i], high[i]) for i in others)):
            left = 1 - sum(choice)
            if low[free] - 1e-12 <= left <= high[free] + 1e-12:
                q = np.empty(low.size)
                q[others], q[free] = choice, left
                corners.append(q)
    return corners


def test_bounds_against_every_vertex_of_the_set(rng):
    """An occupancy is linear in each row, so its extremes are at corners: 2^8 of them for H = 3, S = A = 2."""
    H, S, A = 3, 2, 2
    for _ in range(6):
        centre, radius = (array[..., 0] for array in random_set(rng, H, S, A, 1, width=0.5))
        policy, initial = random_policy(rng, H, S, A, 1)[..., 0], rng.dirichlet(np.ones(S))
        low, high = np.maximum(centre - radius, 0), np.minimum(centre + radius, 1)
        rows = [(h, s, a) for h, s, a in np.ndindex(H - 1, S, A)]
        transitions = centre.copy()
        found = []
        for corner in itertools.product(*(row_vertices(low[row], high[row]) for row in rows)):
            for row, q in zip(rows, corner, strict=True):
                transitions[row] = q
            mu = [initial]
            for h in range(H - 1):
                mu.append(np.einsum("s,sa,sax->x", mu[h], policy[h], transitions[h]))
            found.append(mu)
        upper, lower = confidence.occupancy_bounds(centre, radius, initial, policy)
        np.testing.assert_allclose(upper, np.max(found, axis=0), rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(lower, np.min(found, axis=0), rtol=0, atol=TOLERANCE)


def test_radius_zero_is_the_exact_occupancy(rng):
    centre, radius = random_set(rng, 5, 7, 3, 4, width=0.0)
    policy, initial = random_policy(rng, 5, 7, 3, 4), rng.dirichlet(np.ones(7))
    upper, lower = confidence.occupancy_bounds(centre, radius, initial, policy)
    np.testing.assert_array_equal(upper, lower)  # nothing to hand out: the same sums in the same order
    np.testing.assert_array_equal(upper[0], np.repeat(initial[:, None], 4, axis=1))
    for r in range(4):
        exact = planning.state_occupancy(centre[..., r], initial, policy[..., r])
        np.testing.assert_allclose(upper[..., r], exact, rtol=0, atol=TOLERANCE)


def test_radius_one_says_nothing(rng):
    centre, _ = random_set(rng, 4, 5, 2, 1)
    upper, lower = confidence.occupancy_bounds(
        centre, np.full(centre.shape, np.inf), np.eye(5)[2], random_policy(rng, 4, 5, 2, 1)
    )
    np.testing.assert_allclose(upper[1:], 1, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(lower[1:], 0)
    np.testing.assert_array_equal(upper[0, :, 0], np.eye(5)[2])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 4)),
    width=st.sampled_from([0.001, 0.1, 0.5, 1.5]),
)
def test_bounds_hold_for_kernels_inside_and_widen_with_the_radius(seed, sizes, width):
    rng = np.random.default_rng(seed)
    centre, radius = (array[..., 0] for array in random_set(rng, *sizes, 1, width=width))
    policy, initial = random_policy(rng, *sizes, 1)[..., 0], rng.dirichlet(np.full(sizes[1], 0.4))
    upper, lower = confidence.occupancy_bounds(centre, radius, initial, policy)
    mu = planning.state_occupancy(inside(rng, centre, radius), initial, policy)
    assert np.all(lower <= mu + TOLERANCE)
    assert np.all(mu <= upper + TOLERANCE)
    wider_upper, wider_lower = confidence.occupancy_bounds(centre, 1.3 * radius, initial, policy)
    assert np.all(wider_upper >= upper - TOLERANCE)
    assert np.all(wider_lower <= lower + TOLERANCE)
    assert np.all((lower >= 0) & (upper <= 1 + TOLERANCE))


@pytest.mark.parametrize("largest", [True, False])
def test_extended_values_bound_those_of_kernels_inside_and_are_attained(largest, rng):
    H, S, A = 4, 6, 3
    centre, radius = (array[..., 0] for array in random_set(rng, H, S, A, 1))
    policy, losses = random_policy(rng, H, S, A, 1)[..., 0], rng.normal(size=(H, S, A))
    q, values = confidence.extended_evaluate(centre, radius, losses, policy, largest)
    for _ in range(20):
        inner, _ = planning.evaluate(inside(rng, centre, radius), losses, policy)
        assert np.all((q >= inner - TOLERANCE) if largest else (q <= inner + TOLERANCE))
    # the kernel that is extreme for the values found has these values
    attaining = confidence.extreme_distribution(centre, radius, values[1:], largest)
    for expected, got in zip(planning.evaluate(attaining, losses, policy), (q, values), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)


def test_dilated_values_multiply_each_backup(rng):
    H, S, A = 3, 4, 2
    centre, _ = (array[..., 0] for array in random_set(rng, H, S, A, 1))
    policy, bonus = random_policy(rng, H, S, A, 1)[..., 0], rng.random((H, S, A))
    q, _ = confidence.extended_evaluate(centre, 0 * centre, bonus, policy, dilation=1 / H)
    growing = bonus * ((1 + 1 / H) ** np.arange(H))[:, None, None]  # each step earlier multiplies once more
    expected, _ = planning.evaluate(centre, growing, policy)
    np.testing.assert_allclose(q[0], expected[0], rtol=0, atol=TOLERANCE)


def test_upper_bounds_cover_the_bonus_value(rng):
    """U4 of the DAPO specification: the optimistic value of a bonus b(s) is at most sum_hs upper_h(s) b_h(s)."""
    for _ in range(20):
        centre, radius = (array[..., 0] for array in random_set(rng, 4, 5, 2, 1))
        policy, bonus = random_policy(rng, 4, 5, 2, 1)[..., 0], rng.random((4, 5))
        upper, _ = confidence.occupancy_bounds(centre, radius, np.eye(5)[0], policy)
        _, values = confidence.extended_evaluate(centre, radius, np.repeat(bonus[:, :, None], 2, axis=2), policy)
        assert values[0, 0] <= np.sum(upper * bonus) + TOLERANCE


@pytest.mark.parametrize("largest", [True, False])
def test_extended_best_response_against_all_policies(largest, rng):
    H, S, A = 2, 3, 2
    centre, radius = (array[..., 0] for array in random_set(rng, H, S, A, 1))
    losses = rng.random((H, S, A))
    policy, values = confidence.extended_best_response(centre, radius, losses, largest)
    best = np.full(S, np.inf)
    for choice in itertools.product(range(A), repeat=H * S):
        deterministic = np.eye(A)[np.reshape(choice, (H, S))]
        best = np.minimum(best, confidence.extended_evaluate(centre, radius, losses, deterministic, largest)[1][0])
    np.testing.assert_allclose(values[0], best, rtol=0, atol=TOLERANCE)
    of_policy = confidence.extended_evaluate(centre, radius, losses, policy, largest)[1]
    np.testing.assert_allclose(values, of_policy, rtol=0, atol=TOLERANCE)


def test_sets_are_shared_or_one_per_run(rng):
    H, S, A, R = 3, 6, 2, 5
    centre, radius = (array[..., 0] for array in random_set(rng, H, S, A, 1))
    policy, initial, losses = random_policy(rng, H, S, A, R), rng.dirichlet(np.ones(S)), rng.random((H, S, A))
    repeated = [np.repeat(array[..., None], R, axis=-1) for array in (centre, radius)]
    for function, tail in (
        (confidence.occupancy_bounds, (initial, policy)),
        (confidence.extended_evaluate, (losses, policy)),
    ):
        for shared, own in zip(function(centre, radius, *tail), function(*repeated, *tail), strict=True):
            assert shared.shape[-1] == R
            np.testing.assert_array_equal(shared, own)
    by_run = confidence.occupancy_bounds(*repeated, initial, policy[..., 0])  # one policy, sets by run
    np.testing.assert_array_equal(
        by_run[0][..., 3], confidence.occupancy_bounds(centre, radius, initial, policy)[0][..., 0]
    )
    backup = confidence.optimistic_backup(centre, radius, rng.random((H, S, R)))
    assert backup.shape == (H, S, A, R)


def test_other_array_libraries_get_their_own_arrays_back(rng):
    centre, radius = random_set(rng, 3, 4, 2, 2)
    policy, initial, values = random_policy(rng, 3, 4, 2, 2), rng.dirichlet(np.ones(4)), rng.random((3, 4))
    for function, tail in (
        (confidence.occupancy_bounds, (initial, policy)),
        (confidence.optimistic_backup, (values,)),
        (confidence.extreme_distribution, (values,)),
        (confidence.extended_best_response, (policy,)),
    ):
        expected = function(centre, radius, *tail)
        got = function(*map(array_api_strict.asarray, (centre, radius, *tail)))
        for one, other in zip(_flat(expected), _flat(got), strict=True):
            assert type(other) is type(array_api_strict.asarray(centre))
            np.testing.assert_allclose(np.asarray(other), one, rtol=0, atol=TOLERANCE)


def _flat(result):
    return result if isinstance(result, tuple) else (result,)


def ok() -> dict[str, np.ndarray]:
    return {
        "centre": np.full((2, 3, 2, 3), 1 / 3),
        "radius": np.full((2, 3, 2, 3), 0.1),
        "initial": np.eye(3)[0],
        "policy": np.full((2, 3, 2), 0.5),
    }


def changed(name: str, index: tuple, value: float) -> dict[str, np.ndarray]:
    arguments = ok()
    arguments[name][index] = value
    return arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (changed("radius", (1, 2, 0, 1), -0.1), r"radius is -0.1 at \(h, s, a, next state\) = \(1, 2, 0, 1\);"),
        (changed("radius", (0, 0, 0, 0), np.nan), r"radius is nan at .*; a radius must be at least 0"),
        (changed("centre", (1, 2, 0, 1), 0.5), r"centre sums to 1.16.* at \(h, s, a\) = \(1, 2, 0\); it must sum to 1"),
        (changed("centre", (0, 1, 1, 2), -0.2), r"centre is -0.2 at .*; probabilities must be in \[0, 1\]"),
        (changed("initial", (1,), 0.5), r"initial sums to 1.5; it must sum to 1"),
        (changed("initial", (1,), -0.5), r"initial is -0.5 at state 1; probabilities must be in \[0, 1\]"),
        (changed("policy", (0, 0, 0), 0.7), r"policy sums to 1.2 over the actions at"),
        (ok() | {"centre": np.ones((2, 3, 2))}, r"centre must have shape \(H, S, A, S\)"),
        (ok() | {"radius": np.ones((2, 3, 2, 1))}, r"radius must have the shape of centre, \(2, 3, 2, 3\), got "),
        (ok() | {"initial": np.ones(2) / 2}, r"initial must have shape \(S,\) = \(3,\), got \(2,\)"),
        (ok() | {"policy": np.ones((2, 3))}, r"policy must have shape \(H, S, A\) = \(2, 3, 2\).*got \(2, 3\)"),
        (
            ok() | {"radius": np.ones((2, 3, 2, 3, 4)), "policy": np.full((2, 3, 2, 5), 0.5)},
            r"arguments have 4 and 5 runs; they must have the same, or 1",
        ),
    ],
)  # fmt: skip
def test_occupancy_bounds_says_what_is_wrong(arguments, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        confidence.occupancy_bounds(**arguments)


def test_other_functions_say_what_is_wrong():
    centre, radius = ok()["centre"], ok()["radius"]
    with pytest.raises(InvalidInputError, match=r"values must have shape \(H, S\) = \(2, 3\).*got \(3, 3\)"):
        confidence.optimistic_backup(centre, radius, np.zeros((3, 3)))
    with pytest.raises(InvalidInputError, match=r"values is inf at \(h, s\) = \(0, 0\); it must be finite"):
        confidence.pessimistic_backup(centre, radius, np.full((2, 3), np.inf))
    with pytest.raises(
        InvalidInputError, match=r"losses is nan at \(h, s, a, run\) = \(0, 0, 0, 0\); it must be finite"
    ):
        confidence.extended_best_response(centre, radius, np.full((2, 3, 2), np.nan))
    with pytest.raises(InvalidInputError, match=r"visits \(H, S, A\), .* got \(2, 3, 2, 3\) and \(2, 3\)"):
        confidence.uob_reps_radius(centre, np.ones((2, 3), dtype=np.int64), 1.0)
    with pytest.raises(InvalidInputError, match=r"log_term must be positive, got 0.0"):
        confidence.uob_reps_radius(centre, np.ones((2, 3, 2), dtype=np.int64), 0.0)
    with pytest.raises(InvalidInputError, match=r"width_scale must be at least 0, got -1"):
        confidence.uob_reps_radius(centre, np.ones((2, 3, 2), dtype=np.int64), 1.0, -1.0)
    with pytest.raises(InvalidInputError, match=r"unknown radius 'uob_rep'; did you mean 'uob_reps'"):
        confidence.ConfidenceSettings("uob_rep")
    with pytest.raises(InvalidInputError, match=r"refresh must be 'epoch' or 'episode', got 'never'"):
        confidence.ConfidenceSettings(refresh="never")
    with pytest.raises(InvalidInputError, match=r"bias_scale must be finite and at least 0, .* got -0.5"):
        confidence.ConfidenceSettings(bias_scale=-0.5)
    with pytest.raises(InvalidInputError, match=r"failure_probability must be in \(0, 1\), got 1"):
        confidence.ConfidenceSets((2, 3, 2), 1, 10, confidence.ConfidenceSettings(failure_probability=1))
    with pytest.raises(InvalidInputError, match=r"width_scale has 3 entries for 2 runs"):
        confidence.ConfidenceSets((2, 3, 2), 2, 10, confidence.ConfidenceSettings(width_scale=[1, 2, 3]))
