"""Regularised leaders against golden values, high precision, optimality conditions and limits."""

from __future__ import annotations

import itertools

import array_api_strict
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tabpo
from tabpo import kernels, regularizers
from tabpo.errors import InvalidInputError
from tabpo.kernels import leaders, plain_leaders
from tests.conftest import golden

GOLDEN = golden("regularizers")
KINDS = ("shannon", "tsallis", "log_barrier")
QS = (0.01, 0.3, 0.5, 0.7, 0.99)

# A probability's own rounding, that of a power with exponent -1 / (1 - q) and that of a sum of 1000 terms come to some
# 1e-13; results in another order of sums are held to ten times that.
TOLERANCE = 1e-12


def leader(kind, losses, step_size, q=0.5, axis=-1):
    if kind == "tsallis":
        return regularizers.tsallis(losses, step_size, q, axis)
    return getattr(regularizers, kind)(losses, step_size, axis)


def wild(rng, A, R):
    """Losses (A, R) of every size from 1e-8 to 1e8 and every shape: spread out, tied, one best, geometric."""
    span = 10 ** rng.uniform(-8, 8, R)
    uniform = rng.random((A, R))
    shapes = [
        uniform,
        np.round(3 * uniform) / 3,
        (uniform > 0.1).astype(float),
        uniform**12,
        10 ** (-18 * uniform),
        np.zeros((A, R)),
    ]
    losses = np.choose(rng.integers(len(shapes), size=R), shapes) * span
    return losses - span * rng.choice([0.0, 1.0, 0.3], R), 10 ** rng.uniform(-6, 3, R)


def spread(rng, A, R, orders):
    return 10 ** rng.uniform(-orders / 2, orders / 2, (A, R))


# --- golden values and high precision -------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("kind", KINDS)
def test_golden(kind, backend):
    cases = [case for case in GOLDEN["cases"] if case["regularizer"] == kind]
    assert len(cases) > 100
    with kernels.using(backend):
        for case in cases:
            policy = leader(kind, case["losses"], case["step_size"], case.get("q", 0.5))
            expected = np.array(case["policy"])
            smallest = 1e-290 if kind == "shannon" else GOLDEN["absolute_tolerance"]
            np.testing.assert_allclose(policy, expected, rtol=GOLDEN["relative_tolerance"], atol=smallest)


def by_bisection(kind, losses, step_size, q):
    """Return the leader to 40 digits: the multiplier x of ``losses_a + psi_a'(p_a) = x`` with ``sum p = 1``."""
    losses = [mpmath.mpf(float(loss)) for loss in losses]
    rates = [mpmath.mpf(float(rate)) for rate in step_size]
    q = mpmath.mpf(q)

    def probabilities(x):
        if kind == "shannon":
            return [mpmath.exp(rate * (x - loss)) for loss, rate in zip(losses, rates, strict=True)]
        if kind == "tsallis":
            return [
                (rate * (1 - q) / q * (loss - x)) ** (-1 / (1 - q)) for loss, rate in zip(losses, rates, strict=True)
            ]
        return [1 / (rate * (loss - x)) for loss, rate in zip(losses, rates, strict=True)]

    # The distance of x below the least loss is between 10^-40 and 10^40; for Shannon it may lie on either side.
    least = min(losses)
    if kind == "shannon":
        x = least - mpmath.log(mpmath.fsum(probabilities(least))) / rates[0]
        return probabilities(x)
    low, high = mpmath.mpf(-40), mpmath.mpf(40)
    for _ in range(150):
        middle = (low + high) / 2
        total = mpmath.fsum(probabilities(least - mpmath.mpf(10) ** middle))
        low, high = (middle, high) if total > 1 else (low, middle)
    return probabilities(least - mpmath.mpf(10) ** high)


@pytest.mark.parametrize("kind", KINDS)
def test_high_precision_at_extremes(kind, rng):
    near_tie = [1e8, np.nextafter(1e8, 0), np.nextafter(1e8, 2e8), 1e8]
    problems = [
        (near_tie, 1e3),
        ([0.0, 1e8], 1e3),  # as good as deterministic: the other probability is still right to all digits
        ([0.0, 1e-300, 1e8], 1.0),
        ([-1e8, 1e8, 0.0], 1e-9),
        (rng.random(5) * 1e8, 1e-6),
        (10 ** rng.uniform(-9, 8, 30), 0.1),
    ]
    with mpmath.workdps(50):
        for losses, rate in problems:
            rates = np.full(len(losses), rate)
            if kind == "log_barrier":
                rates = rates * 10 ** rng.uniform(-4, 4, len(losses))
            for q in (0.001, 0.1, 0.5, 0.9, 0.999) if kind == "tsallis" else (0.5,):
                expected = by_bisection(kind, losses, rates, q)
                policy = leader(kind, losses, rates if kind == "log_barrier" else rate, q)
                for p, e in zip(policy, expected, strict=True):
                    if e > 1e-300:  # an exponent is right to its last place: ln p of it is lost
                        assert abs(p / e - 1) < 1e-14 * max(10, -float(mpmath.log(e)))
                    else:
                        assert p < 1e-299


def test_two_actions_of_shannon_are_a_logistic_function():
    gap = np.concatenate([[0.0], 10 ** np.linspace(-9, 2, 40)])
    policy = regularizers.shannon(np.stack([gap, np.zeros_like(gap)], -1), 7.0)
    np.testing.assert_allclose(policy[:, 0], 1 / (1 + np.exp(7 * gap)), rtol=TOLERANCE)
    np.testing.assert_allclose(policy[:, 1], 1 / (1 + np.exp(-7 * gap)), rtol=TOLERANCE)


# --- optimality conditions ------------------------------------------------------------------------------------------


def kkt_residual(kind, losses, step_size, q, policy):
    """Return how far the derivatives of the objective are from equal, in units of their rounding, along axis 0."""
    gaps = losses - losses.min(0)
    present = policy > 1e-290
    p = np.where(present, policy, 1.0)
    slope = {
        "shannon": lambda: np.log(p) / step_size,
        "tsallis": lambda: -q / (1 - q) * p ** (q - 1) / step_size,
        "log_barrier": lambda: -1 / (step_size * p),
    }[kind]()
    curvature = {
        "shannon": lambda: 1 / step_size + 0 * p,
        "tsallis": lambda: q * p ** (q - 1) / step_size,
        "log_barrier": lambda: 1 / (step_size * p),
    }[kind]()
    derivative = gaps + slope
    rounding = gaps + np.abs(slope) + curvature
    top = policy.argmax(0)[None]
    difference = np.abs(derivative - np.take_along_axis(derivative, top, 0))
    return np.where(present, difference / (rounding + np.take_along_axis(rounding, top, 0)), 0.0).max()


@given(
    A=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    q=st.floats(0.001, 0.999),
    orders=st.floats(0, 8),
)
@settings(max_examples=150, deadline=None)
def test_leaders_satisfy_the_optimality_conditions(A, seed, kind, q, orders):
    rng = np.random.default_rng(seed)
    losses, step_size = wild(rng, A, 50)
    if kind == "log_barrier":
        step_size = step_size * spread(rng, A, 50, orders)
    policy = leader(kind, losses, step_size, q, axis=0)
    assert (policy >= 0).all()
    np.testing.assert_allclose(policy.sum(0), 1.0, atol=1e-13)
    assert kkt_residual(kind, losses, step_size, q, policy) < 1e-13


@given(losses=st.lists(st.floats(-1e8, 1e8), min_size=2, max_size=8), rate=st.floats(1e-6, 1e3), data=st.data())
@settings(max_examples=100, deadline=None)
def test_order_and_monotonicity(losses, rate, data):
    """A smaller loss is played at least as often; raising a loss lowers its own probability and raises the others."""
    losses = np.array(losses)
    a = data.draw(st.integers(0, losses.size - 1))
    raised = losses.copy()
    raised[a] += data.draw(st.floats(0, 1e8))
    order = np.argsort(losses, kind="stable")
    for kind, q in (("shannon", 0), ("tsallis", 0.5), ("tsallis", 0.8), ("log_barrier", 0)):
        before, after = leader(kind, losses, rate, q), leader(kind, raised, rate, q)
        assert (np.diff(before[order]) <= 1e-14).all()
        assert after[a] <= before[a] + 1e-13
        assert (np.delete(after, a) >= np.delete(before, a) - 1e-13).all()


@pytest.mark.parametrize("kind", KINDS)
def test_invariance(kind, rng):
    losses = np.round(rng.random((4, 7, 6)) * 2**20) / 2**10  # exact sums with the shifts below
    step_size = spread(rng, 7, 6, 2) if kind == "log_barrier" else spread(rng, 1, 6, 2)
    policy = leader(kind, losses, step_size, 0.7, axis=1)
    shifted = leader(kind, losses - 2.0**25 * rng.integers(9, size=(4, 1, 6)), step_size, 0.7, axis=1)
    np.testing.assert_array_equal(shifted, policy)
    scaled = leader(kind, losses * 2.0**9, step_size / 2.0**9, 0.7, axis=1)
    np.testing.assert_allclose(scaled, policy, rtol=TOLERANCE)
    order = rng.permutation(7)
    permuted = leader(kind, losses[:, order], step_size[order] if kind == "log_barrier" else step_size, 0.7, axis=1)
    np.testing.assert_allclose(permuted, policy[:, order], rtol=TOLERANCE)


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_action_equal_losses_and_ties(kind, backend):
    with kernels.using(backend):
        for value in (0.0, 1e8, -1e8, 1e-300):
            for q in QS:
                assert leader(kind, [value], 3.0, q) == [1.0]
                for A in (2, 3, 10, 1000):
                    np.testing.assert_allclose(leader(kind, [value] * A, 1e-3, q), 1 / A, rtol=1e-14)
        for q in QS:
            policy = leader(kind, [2.0, 1.0, 2.0, 1.0, 2.0, 7.0], 0.7, q)
            assert policy[0] == policy[2] == policy[4] < policy[1] == policy[3]


def test_tsallis_tends_to_shannon_at_first_order(rng):
    losses = rng.random((20, 10)) * 30
    limit = regularizers.shannon(losses, 0.5)
    distance = [np.abs(regularizers.tsallis(losses, 0.5, 1 - d) - limit).max() for d in (1e-3, 1e-6, 1e-9, 1e-12)]
    np.testing.assert_allclose(np.divide(distance[:-1], distance[1:]), 1e3, rtol=0.02)
    np.testing.assert_allclose(regularizers.tsallis(losses, 0.5, 1 - 2**-53), limit, rtol=TOLERANCE)


def test_tsallis_tends_to_the_log_barrier(rng):
    losses = rng.random((20, 10)) * 30
    limit = regularizers.log_barrier(losses, 0.5)
    distance = [np.abs(regularizers.tsallis(losses, 0.5 * q, q) - limit).max() for q in (1e-3, 1e-6, 1e-9)]
    np.testing.assert_allclose(np.divide(distance[:-1], distance[1:]), 1e3, rtol=0.02)


def test_half_is_the_general_formula_near_a_half(rng):
    losses, step_size = wild(rng, 20, 300)
    half = regularizers.tsallis(losses, step_size, axis=0)
    near = regularizers.tsallis(losses, step_size, 0.5 + 1e-15, axis=0)
    np.testing.assert_allclose(near, half, rtol=1e-11)


def test_far_losses_and_flat_regularizers():
    """A step size of 0+ gives the uniform policy, one of infinity the best action; far actions decay as powers."""
    losses = np.array([3.0, 1.0, 2.0])
    for kind in KINDS:
        np.testing.assert_allclose(leader(kind, losses, 1e-13), 1 / 3, rtol=1e-12)
        np.testing.assert_allclose(leader(kind, losses, 1e13), [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(regularizers.tsallis([0.0, 1e8], 2.0)[1], (2e8 + 1) ** -2.0, rtol=1e-12)
    np.testing.assert_allclose(regularizers.tsallis([0.0, 1e8], 2.0, 0.25)[1], 6e8 ** (-4 / 3), rtol=1e-8)
    np.testing.assert_allclose(regularizers.log_barrier([0.0, 1e8], [5.0, 2.0])[1], 1 / 2e8, rtol=1e-8)
    np.testing.assert_allclose(regularizers.shannon([0.0, 1e8], 1e-6)[1], np.exp(-100), rtol=1e-13)


# --- the solver -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [leaders, plain_leaders])
def test_newton_takes_few_steps(version, rng):
    """Bounds are one above what 3 10^5 problems of this kind needed."""
    for A in (1, 2, 3, 10, 100, 1000):
        losses, step_size = wild(rng, A, 400 if A < 100 else 60)
        for q in (*QS, 0.999, 1 - 1e-9):
            assert version.tsallis_leader(losses, step_size, q)[1].max() <= 9
        for orders, bound in ((0, 8), (2, 9), (8, 13), (30, 13)):
            rates = step_size * spread(rng, *losses.shape, orders)
            assert version.log_barrier_leader(losses, 1 / rates)[1].max() <= bound


def test_log_barrier_where_the_other_actions_nearly_have_all_the_mass(rng):
    """Their shares are near 1, the best action's scale is smaller by orders: the root is the geometric mean of the two.

    From the smaller one the iterates double at worst.
    """
    for orders in (2, 8, 16, 30):
        gaps = np.concatenate([np.zeros((1, 300)), rng.uniform(0.5, 1, (4, 300))])
        shares = rng.dirichlet(np.ones(4), 300).T * (1 + 10 ** rng.uniform(-12, -1, 300) * rng.choice([-1, 0, 1], 300))
        scale = np.concatenate([10 ** -rng.uniform(0, orders, (1, 300)), gaps[1:] * shares])
        policy, steps = leaders.log_barrier_leader(gaps, scale)
        assert steps.max() <= 6 + np.log2(10 ** (orders / 2))
        np.testing.assert_allclose(policy.sum(0), 1, atol=1e-14)


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95, None])
def test_iterates_rise_inside_the_bracket(q, rng, monkeypatch):
    newton, visited = plain_leaders._newton, []

    def recording(advance, low, high):
        visited.append(low)

        def recorded(x):
            visited.append(x)
            return advance(x)

        root, steps = newton(recorded, low, high)
        assert (root <= high).all()
        visited.append(root)
        return root, steps

    monkeypatch.setattr(plain_leaders, "_newton", recording)
    losses, step_size = wild(rng, 10, 500)
    if q is None:
        plain_leaders.log_barrier_leader(losses, 1 / (step_size * spread(rng, 10, 500, 4)))
    else:
        plain_leaders.tsallis_leader(losses, step_size, q)
    assert len(visited) > 3
    assert all((after >= before).all() for before, after in itertools.pairwise(visited))


def test_logarithm_is_within_three_units_in_the_last_place(rng):
    import numba

    @numba.njit
    def each(points, out):
        for i in range(points.size):
            out[i] = leaders.log1p_nonnegative(points[i])

    points = np.concatenate([10 ** rng.uniform(-30, 20, 20000), rng.random(20000), [0.0, 1.0, 2**0.5 - 1, 5e-324]])
    got = np.empty_like(points)
    each(points, got)
    expected = np.log1p(points)
    assert (np.abs(got - expected) <= 4 * np.spacing(expected)).all()  # three for ours, one for the library's
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.log1p(x) - y) / mpmath.mpf(float(np.spacing(y)))
            for x, y in zip(points[:2000], got[:2000], strict=True)
        )
    assert worst <= 3


# --- versions, layouts, runs ----------------------------------------------------------------------------------------


def versions(name, *arguments):
    strict = [array_api_strict.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    results = [
        getattr(plain_leaders, name)(*arguments),
        getattr(kernels, name)(*arguments),
        getattr(leaders, name)(*arguments),
        getattr(kernels, name)(*strict),
    ]
    return [np.asarray(result[0] if isinstance(result, tuple) else result) for result in results]


@pytest.mark.parametrize("sizes", [(4, 5, 3, 7), (1, 1, 1, 1), (2, 13, 4, 1), (3, 2, 6, 70), (1, 3, 1000, 2)])
def test_versions_agree(sizes, rng):
    H, S, A, R = sizes
    losses, step_size = wild(rng, A, H * S * R)
    losses = np.ascontiguousarray(np.moveaxis(losses.reshape(A, H, S, R), 0, 2))
    step_size = step_size.reshape(H, S, R)
    problems = [("tsallis_leader", losses, step_size, q) for q in QS]
    problems.append(("shannon_leader", losses, step_size))
    rates = step_size[:, :, None] * spread(rng, H * S * A, R, 3).reshape(sizes)
    problems.append(("log_barrier_leader", losses, 1 / rates))
    for problem in problems:
        reference, *others = versions(*problem)
        for other in others:
            np.testing.assert_allclose(other, reference, rtol=TOLERANCE, atol=1e-290)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_alone_and_beside_others(kind, rng):
    H, S, A, R = 2, 3, 5, 37
    losses, step_size = wild(rng, A, H * S * R)
    losses = np.ascontiguousarray(np.moveaxis(losses.reshape(A, H, S, R), 0, 2))
    step_size = np.broadcast_to(step_size.reshape(H, S, 1, R), (H, S, A if kind == "log_barrier" else 1, R))
    for q in (0.5, 0.3) if kind == "tsallis" else (0.5,):
        together = leader(kind, losses, step_size, q, axis=2)
        for runs in ([0], [17], [36], [3, 30], list(range(20))):
            alone = leader(kind, losses[..., runs], step_size[..., runs], q, axis=2)
            np.testing.assert_array_equal(alone, together[..., runs])
        one_state = leader(kind, losses[1, 2], step_size[1, 2], q, axis=0)  # nor on the states beside it
        np.testing.assert_array_equal(one_state, together[1, 2])


@pytest.mark.parametrize("kind", KINDS)
def test_any_axis_and_any_layout(kind, rng):
    losses = rng.normal(size=(3, 4, 5, 2)) * 10
    expected = leader(kind, np.moveaxis(losses, 2, -1), 0.3, 0.7)
    for axis in range(4):
        moved = np.moveaxis(losses, 2, axis)
        for given_axis in (axis, axis - 4):
            policy = leader(kind, moved, 0.3, 0.7, axis=given_axis)
            assert policy.shape == moved.shape
            np.testing.assert_array_equal(np.moveaxis(policy, axis, -1), expected)
    assert leader(kind, [1, 2, 3], 1).dtype == np.float64
    np.testing.assert_array_equal(leader(kind, [1, 2, 3], 1), leader(kind, np.array([1, 2, 3], np.float32), 1.0))
    assert leader(kind, np.zeros((0, 3)), 1.0).shape == (0, 3)
    strict = leader(kind, array_api_strict.asarray(losses), 0.3, 0.7, axis=2)
    assert isinstance(strict, type(array_api_strict.asarray(losses)))
    np.testing.assert_allclose(np.asarray(strict), np.moveaxis(expected, -1, 2), rtol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_step_sizes_broadcast(kind, rng):
    losses = rng.normal(size=(3, 4, 5, 2)) * 10
    by_run, by_state = rng.random(2) + 0.1, rng.random((3, 4, 1, 2)) + 0.1
    each = [
        [[leader(kind, losses[h, s, :, r], by_state[h, s, 0, r]) for r in range(2)] for s in range(4)] for h in range(3)
    ]
    np.testing.assert_array_equal(leader(kind, losses, by_state, axis=2), np.moveaxis(each, -1, 2))
    np.testing.assert_array_equal(
        leader(kind, losses, by_run, axis=2),
        np.stack([leader(kind, losses[..., r], by_run[r]) for r in range(2)], -1),
    )
    rates = rng.random((7, 1)) + 0.1  # one state's losses, several step sizes
    np.testing.assert_array_equal(
        leader(kind, losses[0, 0, :, 0], rates), [leader(kind, losses[0, 0, :, 0], rate) for rate in rates[:, 0]]
    )
    if kind == "log_barrier":
        by_action = rng.random(5) + 0.1
        np.testing.assert_array_equal(
            leader(kind, losses, by_action[:, None], axis=2),
            np.moveaxis(leader(kind, np.moveaxis(losses, 2, -1), by_action), -1, 2),
        )


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("losses", "step_size", "axis", "sentence"),
    [
        ([[0.0, 1.0], [np.nan, 1.0]], 1.0, -1, r"losses is nan at index \(1, 0\); every loss must be finite"),
        ([0.0, np.inf], 1.0, -1, r"losses is inf at index \(1,\)"),
        ([0.0, "a"], 1.0, -1, "losses must be an array of numbers"),
        (3.0, 1.0, -1, "must be an array with an action axis"),
        (np.zeros((3, 0)), 1.0, -1, r"losses of shape \(3, 0\) have no actions along axis -1"),
        ([0.0, 1.0], 1.0, 1, r"losses of shape \(2,\) have no axis 1"),
        ([0.0, 1.0], 0.0, -1, r"step_size is 0.0; it must be positive and finite"),
        ([0.0, 1.0], -2, -1, r"step_size is -2.0; it must be positive and finite"),
        ([0.0, 1.0], np.inf, -1, r"step_size is inf; it must be positive and finite"),
        ([[0.0], [1.0]], [[1.0], [np.nan]], -1, r"step_size is nan at index \(1, 0\)"),
        ([0.0, 1.0], None, -1, "step_size is nan"),
        ([0.0, 1.0], "a", -1, "step_size must be an array of numbers"),
        ([0.0, 1.0], [1.0, 1.0, 1.0], -1, r"step_size of shape \(3,\) does not broadcast .* shape \(2,\)"),
        ([[0.0], [1.0]], [1.0, 2.0], -1, r"step_size of shape \(2,\) does not broadcast"),
    ],
)
def test_errors_say_what_and_where(kind, losses, step_size, axis, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        leader(kind, losses, step_size, axis=axis)


@pytest.mark.parametrize("kind", ["shannon", "tsallis"])
def test_step_size_per_action_is_for_the_log_barrier(kind):
    with pytest.raises(InvalidInputError, match=r"step_size of shape \(2,\) differs between the actions"):
        leader(kind, [0.0, 1.0], [1.0, 2.0])


@pytest.mark.parametrize("q", [0, 1, 1.0, -0.5, float("nan"), "half", None])
def test_q_outside_its_range(q):
    with pytest.raises(InvalidInputError, match="q must be a number with 0 < q < 1, got"):
        regularizers.tsallis([0.0, 1.0], 1.0, q)


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_numbers_beyond_float64_are_an_error(backend):
    sentence = r"the leader at index \(1, 0\) cannot be computed in float64"
    with kernels.using(backend), np.errstate(all="ignore"), pytest.raises(InvalidInputError, match=sentence):
        regularizers.log_barrier([[0.0, 1.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1e-310]])


def test_exported():
    assert tabpo.regularizers is regularizers
