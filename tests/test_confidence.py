"""Confidence sets: bounds against enumerations of kernels and linear programmes, counts against a plain loop."""

from __future__ import annotations

import itertools
import math

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tabpo import confidence, kernels, planning
from tabpo.errors import InvalidInputError
from tabpo.kernels import Boxes, compiled_boxes, plain_boxes
from tests.conftest import golden, random_policy

# Sums of a few hundred products of numbers in [0, 1]: 1e-12 is a thousand times their rounding.
TOLERANCE = 1e-12


def random_set(rng: np.random.Generator, H: int, S: int, A: int, R: int, width: float = 0.3):
    centre = np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.full(S, 0.5), (H, S, A, R)), -1, 3))
    return centre, rng.random(centre.shape) * width * (rng.random((H, S, A, 1, R)) < 0.9)


def inside(rng: np.random.Generator, centre: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return transitions within the set: extreme ones for random values, mixed with the centre."""
    values = rng.random(centre.shape[:2])
    extreme = confidence.extreme_distribution(centre, radius, values, bool(rng.integers(2)))
    share = rng.random((*centre.shape[:3], 1))
    return share * extreme + (1 - share) * centre


# --- bounds ---------------------------------------------------------------------------------------------------------


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


# --- kernels --------------------------------------------------------------------------------------------------------

SIZES = [(4, 5, 3, 6), (1, 1, 1, 1), (2, 13, 4, 1), (3, 2, 6, 9), (5, 9, 2, 3), (3, 17, 1, 2)]


def box_arguments(name: str, rng: np.random.Generator, H: int, S: int, A: int, R: int) -> tuple:
    centre, radius = random_set(rng, H, S, A, R)
    boxes = Boxes.around(centre, radius)
    policy, initial = random_policy(rng, H, S, A, R), rng.dirichlet(np.full(S, 0.3))
    initial = np.where(initial < 0.05, 0, initial) / np.sum(np.where(initial < 0.05, 0, initial))
    states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
    counts = rng.integers(4, size=(H, S, A, S, R))
    counts[-1] = 0
    visits = counts.sum(axis=3) + (np.arange(H) == H - 1)[:, None, None, None] * rng.integers(4, size=(H, S, A, R))
    at_epoch = visits // 2
    tied = np.round(rng.normal(size=(H, S, R)), 1)
    return {
        "occupancy_bounds": (boxes, initial, policy),
        "extreme_expectations": (boxes, tied, False),
        "extended_q_values": (boxes, rng.random((H, S, 1, R)), policy, 1 / H, True),
        "count_trajectory": (counts, visits, at_epoch, np.zeros(R, dtype=np.int64), states, actions),
        "refresh_boxes": (
            boxes, counts, visits, at_epoch, rng.integers(2, size=R), 2.0, 14 / 3, 1, 3.0, rng.random(R) / 5,
        ),
    }[name]  # fmt: skip


def run(function, arguments) -> list[np.ndarray]:
    result = function(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    flat = []
    for part in result if isinstance(result, tuple) else (result,):
        part = getattr(part, "dense", part)
        flat.extend([part.lowest, part.highest] if isinstance(part, Boxes) else [part])
    return [np.asarray(part) for part in flat]


def strict(argument):
    if isinstance(argument, Boxes):
        return Boxes(strict(argument.lowest), strict(argument.highest))
    return array_api_strict.asarray(argument) if isinstance(argument, np.ndarray) else argument


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", kernels.BOX_KERNELS)
def test_versions_agree(name, sizes, rng):
    arguments = box_arguments(name, rng, *sizes)
    packed = tuple(a.packed if isinstance(a, Boxes) else a for a in arguments)
    reference = run(getattr(plain_boxes, name), arguments)
    others = [
        run(getattr(kernels, name), arguments),
        run(getattr(compiled_boxes, name), packed),
        run(getattr(kernels, name), tuple(map(strict, arguments))),
    ]
    with kernels.using("numpy"):
        others.append(run(getattr(kernels, name), tuple(a.packed if isinstance(a, Boxes) else a for a in arguments)))
    for other in others:
        for expected, got in zip(reference, other, strict=True):
            np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", kernels.BOX_KERNELS)
def test_a_run_is_the_same_alone_and_beside_others(name, rng):
    R = 13
    arguments = box_arguments(name, rng, 4, 11, 3, R)
    together = run(getattr(compiled_boxes, name), arguments)

    def alone(argument, r):
        if isinstance(argument, Boxes):
            return Boxes(alone(argument.lowest, r), alone(argument.highest, r))
        is_by_run = isinstance(argument, np.ndarray) and argument.shape[-1] == R
        return np.ascontiguousarray(argument[..., r : r + 1]) if is_by_run else argument

    for r in (0, 6, 12):
        one = run(getattr(compiled_boxes, name), tuple(alone(a, r) for a in arguments))
        for whole, single in zip(together, one, strict=True):
            np.testing.assert_array_equal(whole[..., r], single[..., 0])


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
        got = function(*map(strict, (centre, radius, *tail)))
        for one, other in zip(_flat(expected), _flat(got), strict=True):
            assert type(other) is type(strict(centre))
            np.testing.assert_allclose(np.asarray(other), one, rtol=0, atol=TOLERANCE)


def _flat(result):
    return result if isinstance(result, tuple) else (result,)


# --- counts, epochs, radii ------------------------------------------------------------------------------------------


class PlainRun:
    """One run's counts in dictionaries, its epochs by the words of the specification."""

    def __init__(self) -> None:
        self.n, self.n_next, self.at_epoch, self.epochs = {}, {}, {}, 0

    def add(self, trajectory: list[tuple[int, int]]) -> None:
        for h, (s, a) in enumerate(trajectory):
            self.n[h, s, a] = self.n.get((h, s, a), 0) + 1
            if h + 1 < len(trajectory):
                key = h, s, a, trajectory[h + 1][0]
                self.n_next[key] = self.n_next.get(key, 0) + 1

    def ends_epoch(self, trajectory: list[tuple[int, int]]) -> bool:
        visited = [(h, *pair) for h, pair in enumerate(trajectory)]
        return any(self.n[key] >= max(1, 2 * self.at_epoch.get(key, 0)) for key in visited)

    def begin_epoch(self) -> None:
        self.at_epoch = dict(self.n)
        self.epochs += 1


class Seen:
    def __init__(self, states: np.ndarray, actions: np.ndarray) -> None:
        self.states, self.actions = states, actions


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_counts_and_epochs_against_a_plain_loop(xp, rng):
    H, S, A, R = 3, 4, 2, 3
    counts = confidence.VisitCounts((H, S, A), R, xp)
    plain = [PlainRun() for _ in range(R)]
    for _ in range(60):
        states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
        counts.add(xp.asarray(states), xp.asarray(actions))
        begun = counts.begin_epochs()
        for r, one in enumerate(plain):
            trajectory = [(int(states[h, r]), int(actions[h, r])) for h in range(H)]
            one.add(trajectory)
            assert bool(begun[r]) == one.ends_epoch(trajectory)
            if begun[r]:
                one.begin_epoch()
    for r, one in enumerate(plain):
        assert int(counts.n_epochs[r]) == one.epochs
        for h, s, a in np.ndindex(H, S, A):
            n = one.n.get((h, s, a), 0)
            assert int(counts.visits[h, s, a, r]) == n
            row = [one.n_next.get((h, s, a, x), 0) for x in range(S)]
            assert [int(x) for x in counts.transitions[h, s, a, :, r]] == row
            centre = [c / n for c in row] if sum(row) else [1 / S] * S
            np.testing.assert_allclose(np.asarray(counts.centre()[h, s, a, :, r]), centre, rtol=1e-15)


def test_several_arrivals_at_once_are_one_epoch():
    counts = confidence.VisitCounts((1, 1, 1), 2)
    for _ in range(3):
        counts.add(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64))
    assert counts.begin_epochs().tolist() == [1, 1]
    assert counts.n_epochs.tolist() == [1, 1]
    for expected in (0, 0, 1):  # 3 visits at its start: the next epoch begins at 6
        counts.add(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64))
        assert counts.begin_epochs().tolist() == [expected, expected]


FORMULAS = {
    "delayed_uob_reps": lambda p, n, iota: 4 * math.sqrt(p * iota / max(1, n)) + 10 * iota / max(1, n),
    "uob_reps": lambda p, n, iota: 2 * math.sqrt(p * iota / max(1, n - 1)) + 14 * iota / (3 * max(1, n - 1)),
    "dilated_bonuses": lambda p, n, iota: 4 * math.sqrt(p * iota / max(1, n)) + 28 * iota / (3 * max(1, n)),
    "uob_ftrl": lambda p, n, iota: 2 * math.sqrt(p * iota / max(1, n)) + 14 * iota / (3 * max(1, n)),
}


@pytest.mark.parametrize("name", confidence.RADII)
def test_radii_against_the_table(name, rng):
    centre, _ = random_set(rng, 2, 3, 2, 4)
    visits = rng.integers(10**6, size=(2, 3, 2, 4)) // 10 ** rng.integers(8, size=(2, 3, 2, 4))
    scale = np.array([1.0, 0.1, 0.02, 0.0])
    radius = getattr(confidence, f"{name}_radius")(centre, visits, 7.5, scale)
    alone = getattr(confidence, f"{name}_radius")(centre[..., 1], visits[..., 1], 7.5, 0.1)
    np.testing.assert_array_equal(alone, radius[..., 1])
    for h, s, a, x, r in np.ndindex(centre.shape):
        expected = min(1.0, scale[r] * FORMULAS[name](centre[h, s, a, x, r], visits[h, s, a, r], 7.5))
        assert abs(radius[h, s, a, x, r] - expected) < TOLERANCE
    log_factor = 10 if name == "delayed_uob_reps" else 1
    iota = confidence.RADII[name].log_term((2, 3, 4), 100, 0.05)
    assert iota == pytest.approx(math.log(log_factor * 2 * 3 * 4 * 100 / 0.05), rel=1e-14)


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_sets_follow_the_counts_at_epochs_or_every_episode(refresh, backend, rng):
    """The sets that are refreshed row by row are those computed afresh from the counts of the last refresh."""
    shape, R, K = (3, 5, 2), 4, 500
    scale = [1.0, 0.1, 0.01, 0.0]
    chosen = confidence.ConfidenceSettings("uob_reps", width_scale=scale, refresh=refresh)
    model = np.moveaxis(rng.dirichlet(np.full(5, 0.3), shape[:3]), -1, 3)
    with kernels.using(backend):
        sets = confidence.ConfidenceSets(shape, R, K, chosen)
        centre, visits = sets.counts.centre(), sets.counts.visits.copy()
        for k in range(30):
            states = [rng.integers(5, size=R)]
            actions = rng.integers(2, size=(3, R))
            for h in range(2):
                rows = model[h, states[h], actions[h]]
                states.append(np.array([rng.choice(5, p=row) for row in rows]))
            before = sets.counts.n_epochs.copy()
            sets.observe([Seen(np.array(states), actions)] * (k % 3))  # none, one or several arrive
            begun = np.ones(R, dtype=bool) if refresh == "episode" else sets.counts.n_epochs > before
            centre = np.where(begun, sets.counts.centre(), centre)
            visits = np.where(begun, sets.counts.visits, visits)
        iota = math.log(np.prod(shape) * K / 0.1)
        radius = confidence.uob_reps_radius(centre, visits, iota, np.array(scale))
        lowest, highest = sets.bounds()
        np.testing.assert_allclose(lowest[:-1], np.maximum(centre - radius, 0)[:-1], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(highest[:-1], np.minimum(centre + radius, 1)[:-1], rtol=0, atol=TOLERANCE)
        np.testing.assert_array_equal(sets.visits_in_force, visits)
        policy, initial = random_policy(rng, *shape, R), rng.dirichlet(np.ones(5))
        losses = rng.random((*shape, R))
        for got, expected in zip(
            (*sets.occupancy_bounds(initial, policy), *sets.evaluate(losses, policy, False, 0.5)),
            (
                *confidence.occupancy_bounds(centre, radius, initial, policy),
                *confidence.extended_evaluate(centre, radius, losses, policy, False, 0.5),
            ),
            strict=True,
        ):
            np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["delayed_uob_reps", "uob_reps", "dilated_bonuses"])
def test_the_true_transitions_are_inside(name, rng):
    """delta = 0.1 over 100 runs: 10 failures would be allowed (40 for UOB-REPS); the radii are loose, none is seen."""
    H, S, A, R, K = 2, 3, 2, 100, 4000
    model = rng.dirichlet(np.ones(S), (H, S, A))
    sets = confidence.ConfidenceSets((H, S, A), R, K, confidence.ConfidenceSettings(name))
    table, first = kernels.inverse_cdf_table(model), kernels.inverse_cdf_table(np.ones(S) / S)
    policy = np.full((H, S, A, R), 1 / A)
    missed = np.zeros(R, dtype=bool)
    for _ in range(K):
        states, actions = kernels.sample_trajectories(table, first, policy, rng.random((2 * H, R)))
        sets.observe([Seen(states, actions)])
        if sets.counts.n_trajectories % 500 == 0:
            lowest, highest = sets.bounds()
            outside = (model[..., None] < lowest) | (model[..., None] > highest)
            missed |= outside[:-1].any(axis=(0, 1, 2, 3))
    assert missed.sum() == 0
    assert np.mean(highest[:-1] - lowest[:-1]) < 0.9  # and the sets say something


def test_settings_are_reported():
    chosen = confidence.ConfidenceSettings(width_scale=0.1, bias_scale=0.2)
    assert chosen.reported == {
        "radius": "delayed_uob_reps",
        "failure_probability": 0.1,
        "width_scale": 0.1,
        "bias_scale": 0.2,
        "refresh": "epoch",
        "counts": "immediate",
    }


# --- sentences ------------------------------------------------------------------------------------------------------


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
