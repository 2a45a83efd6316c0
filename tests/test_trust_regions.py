"""Conservative steps against linear programmes, duality, grids, high precision and limits in closed form."""

from __future__ import annotations

import array_api_strict
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tabpo import kernels, regularizers
from tabpo.errors import InvalidInputError
from tabpo.kernels import plain_trust_regions, trust_regions
from tests.conftest import golden

GOLDEN = golden("conservative_step")
KINDS = ("tv", "kl")

# Sums of up to 1000 probabilities, in another order.
TOLERANCE = 1e-12


def step(kind, gains, anchor, radius, axis=-1):
    return getattr(regularizers, f"linear_in_{kind}_ball")(gains, anchor, radius, axis)


def distance(kind, policy, anchor, axis=-1):
    policy, anchor = np.broadcast_arrays(policy, anchor)
    if kind == "tv":
        return 0.5 * np.abs(policy - anchor).sum(axis)
    ratio = np.divide(policy, anchor, out=np.ones_like(policy), where=policy > 0)
    return (policy * np.log(ratio)).sum(axis)


def wild(rng, A, R):
    """Gains (A, R) of every size and shape, anchors from uniform to all but deterministic, radii from 1e-15 to 3."""
    uniform = rng.random((A, R))
    shapes = [uniform, np.round(3 * uniform) / 3, (uniform > 0.3) * 1.0, uniform**12, 10 ** (-18 * uniform)]
    gains = np.choose(rng.integers(len(shapes), size=R), shapes) * 10 ** rng.uniform(-8, 8, R)
    flat = rng.dirichlet(np.ones(A), R).T
    sharp = np.full((A, R), 10 ** -rng.uniform(1, 16, R))
    sharp[rng.integers(A, size=R), np.arange(R)] = 1.0
    steep = 10 ** -rng.uniform(0, 300, (A, R))
    holes = flat * (rng.random((A, R)) < 0.7) + 1e-30 * (np.arange(A) == 0)[:, None]
    anchor = np.choose(rng.integers(4, size=R), [flat, sharp, steep, holes])
    return gains - rng.choice([0.0, 1e8], R), anchor / anchor.sum(0), 10 ** rng.uniform(-15, 0.5, R)


# --- golden values, programmes, duality ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_golden(backend):
    assert len(GOLDEN["cases"]) == 40
    with kernels.using(backend):
        for case in GOLDEN["cases"]:
            gains, anchor = np.array(case["gains"]), np.array(case["anchor"])
            policy = step("tv", gains, anchor, case["tv_radius"])
            assert policy @ gains == pytest.approx(case["tv_value"], abs=GOLDEN["tolerance"], rel=0)
            assert distance("tv", policy, anchor) <= case["tv_radius"] + TOLERANCE
            policy = step("kl", gains, anchor, case["kl_radius"])
            assert distance("kl", policy, anchor) <= case["kl_radius"] + TOLERANCE
            if case["kl_value"] is not None:
                assert policy @ gains == pytest.approx(case["kl_value"], abs=case["kl_tolerance"], rel=0)


def test_total_variation_against_linear_programmes(rng):
    """Variables p and t >= |p - anchor|. 1e-8: the programme's own feasibility tolerance is 1e-9 or so."""
    for A in rng.integers(2, 12, 60):
        gains, anchor = rng.normal(size=A), rng.dirichlet(np.full(A, 10 ** rng.uniform(-1.5, 0.5)))
        if rng.random() < 0.3:
            gains = np.round(gains)
        radius, eye = rng.uniform(0, 1.1), np.eye(A)
        programme = linprog(
            -np.concatenate([gains, np.zeros(A)]),
            A_ub=np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, A)), np.ones((1, A))]]),
            b_ub=np.concatenate([anchor, -anchor, [2 * radius]]),
            A_eq=np.concatenate([np.ones(A), np.zeros(A)])[None],
            b_eq=[1.0],
        )
        policy = step("tv", gains, anchor, radius)
        assert policy @ gains == pytest.approx(-programme.fun, abs=1e-8)
        assert distance("tv", policy, anchor) <= radius + TOLERANCE


def test_relative_entropy_against_its_dual(rng):
    """Any multiplier x > 0 bounds the value by ``x radius + x ln sum_a anchor_a exp(gains_a / x)``: the least is met.

    The minimum over x is sought on a grid refined around its best point; it is flat there: to 1e-9.
    """
    gains, anchor, radius = rng.normal(size=(6, 200)), rng.dirichlet(np.ones(6), 200).T, 10 ** rng.uniform(-4, 0, 200)
    policy = step("kl", gains, anchor, radius, axis=0)
    value = (policy * gains).sum(0)
    centre, width = np.zeros(200), 30.0
    for _ in range(12):
        x = np.exp(centre + np.linspace(-width, width, 61)[:, None])
        scaled = (gains - gains.max(0))[:, None] / x
        bound = gains.max(0) + x * (radius + np.log((anchor[:, None] * np.exp(scaled)).sum(0)))
        assert (bound >= value - 1e-12).all()
        centre, width = np.log(np.take_along_axis(x, bound.argmin(0)[None], 0)[0]), width / 15
    np.testing.assert_allclose(bound.min(0), value, atol=1e-9)


def test_relative_entropy_satisfies_the_optimality_conditions(rng):
    """Inside the support ``ln(p_a / anchor_a)`` is an affine function of the gains, and the constraint is tight."""
    gains, anchor, radius = rng.normal(size=(5, 500)), rng.dirichlet(np.ones(5), 500).T, 10 ** rng.uniform(-6, 1, 500)
    policy = step("kl", gains, anchor, radius, axis=0)
    best = gains.argmax(0)
    at_best = -np.log(anchor[best, np.arange(500)])
    vertex = radius >= at_best
    assert 10 < vertex.sum() < 400
    np.testing.assert_array_equal(policy[:, vertex], np.eye(5)[:, best[vertex]])
    np.testing.assert_allclose(distance("kl", policy, anchor, 0), np.minimum(radius, at_best), rtol=1e-9)
    inner = ~vertex & (policy.min(0) > 1e-300)
    u, g = np.log(policy[:, inner] / anchor[:, inner]), gains[:, inner]
    low, high = g.argmin(0), g.argmax(0)
    columns = np.arange(inner.sum())
    slope = (u[high, columns] - u[low, columns]) / (g[high, columns] - g[low, columns])
    assert (slope > 0).all()
    np.testing.assert_allclose(u - u[low, columns], slope * (g - g[low, columns]), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_point_of_a_grid_is_better(kind, rng):
    """All distributions of 2 and 3 actions in steps of 1/1000 and 1/150; the best grid point is near the answer's."""
    ticks = np.arange(1001) / 1000
    two = np.stack([ticks, 1 - ticks], -1)
    i, j = np.meshgrid(np.arange(151), np.arange(151), indexing="ij")
    three = np.stack([i, j, 150 - i - j], -1)[i + j <= 150] / 150
    for grid, mesh in ((two, 1 / 1000), (three, 1 / 150)):
        A = grid.shape[1]
        for _ in range(25):
            gains, anchor = rng.random(A), rng.dirichlet(np.ones(A))
            radius = rng.uniform(0.01, 0.6)
            policy = step(kind, gains, anchor, radius)
            inside = distance(kind, grid, anchor) <= radius
            assert distance(kind, policy, anchor) <= radius + TOLERANCE
            if inside.any():
                assert (grid[inside] @ gains).max() <= policy @ gains + TOLERANCE
                assert (grid[inside] @ gains).max() >= policy @ gains - 12 * mesh


def tilted_by_bisection(gains, anchor, radius):
    """Return the answer in the relative-entropy ball to 40 digits."""
    gains, anchor = [mpmath.mpf(float(g)) for g in gains], [mpmath.mpf(float(q)) for q in anchor]
    total, top = mpmath.fsum(anchor), max(g for g, q in zip(gains, anchor, strict=True) if q > 0)

    def tilted(rate):
        weights = [q * mpmath.exp(rate * (g - top)) / total for g, q in zip(gains, anchor, strict=True)]
        return [w / mpmath.fsum(weights) for w in weights]

    def divergence(p):
        return mpmath.fsum(x * mpmath.log(x * total / q) for x, q in zip(p, anchor, strict=True) if x > 0)

    low, high = mpmath.mpf(-30), mpmath.mpf(30)
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(tilted(10**middle)) < radius else (low, middle)
    return tilted(10**low)


def test_relative_entropy_in_high_precision(rng):
    """The smaller the radius or the anchor's mass at the best action, the more a naive sum would cancel."""
    problems = [
        ([0.0, 1.0, 2.0], [0.5, 0.3, 0.2], 1e-15),
        ([0.0, 1e8], [1 - 1e-12, 1e-12], 0.3),
        ([1e8, 1e8 - 1e-7, 0.0], [1e-9, 0.5, 0.5 - 1e-9], 0.69),
        ([1.0, 0.0], [1e-200, 1.0], 3.0),
        ([1.0, 0.0, 0.5], [1 - 2e-14, 1e-14, 1e-14], 1e-14),
        ([1.0, 1 - 1e-9, 0.0], [0.1, 0.2, 0.7], 1.3),
        (rng.normal(size=20) * 1e-8, rng.dirichlet(np.full(20, 0.2)), 0.05),
    ]
    with mpmath.workdps(60):
        for gains, anchor, radius in problems:
            expected = np.array([float(p) for p in tilted_by_bisection(gains, anchor, radius)])
            for backend in ("numba", "numpy"):
                with kernels.using(backend):
                    policy = step("kl", gains, anchor, radius)
                moved = np.abs(expected - np.array(anchor))
                np.testing.assert_allclose(policy, expected, rtol=1e-11, atol=1e-300)
                assert (np.abs(policy - expected) <= 1e-7 * moved + 1e-15).all()


# --- closed forms and edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("kind", KINDS)
def test_radius_0_is_the_anchor_and_a_large_one_the_best_action(kind, backend, rng):
    gains = rng.permuted(np.tile(np.linspace(-1e8, 1e8, 7), (100, 1)), axis=1)
    anchor = rng.dirichlet(np.full(7, 0.3), 100)
    with kernels.using(backend):
        np.testing.assert_array_equal(step(kind, gains, anchor, 0), anchor)
        np.testing.assert_array_equal(step(kind, gains, anchor, -0.0), anchor)
        for radius in (1.0, 1.5, np.inf) if kind == "tv" else (1e4, np.inf):
            np.testing.assert_array_equal(step(kind, gains, anchor, radius), np.eye(7)[gains.argmax(1)])


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_ties_leave_mass_where_it_is(backend):
    with kernels.using(backend):
        for kind in KINDS:
            same = step(kind, [3.0, 3.0, 3.0], [0.2, 0.3, 0.5], 0.4)
            np.testing.assert_array_equal(same, [0.2, 0.3, 0.5])
        tied_best = [1.0, 0.0, 1.0, 0.5]
        np.testing.assert_allclose(step("tv", tied_best, [0.1, 0.2, 0.3, 0.4], 0.3), [0.4, 0, 0.3, 0.3])
        np.testing.assert_allclose(step("tv", tied_best, [0.1, 0.2, 0.3, 0.4], 1.0), [0.7, 0, 0.3, 0])
        np.testing.assert_allclose(step("kl", tied_best, [0.1, 0.2, 0.3, 0.4], 1.0), [0.25, 0, 0.75, 0])
        np.testing.assert_allclose(step("tv", [0.0, 0.0, 1.0], [0.5, 0.4, 0.1], 0.2), [0.3, 0.4, 0.3])
        np.testing.assert_array_equal(step("tv", [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], 1.0), [1, 0, 0])


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_support_of_the_anchor(backend):
    """Total variation may leave it; the relative entropy may not: its best action is the best of the support."""
    with kernels.using(backend):
        np.testing.assert_allclose(step("tv", [5.0, 1.0, 0.0], [0.0, 0.9, 0.1], 0.3), [0.3, 0.7, 0])
        np.testing.assert_array_equal(step("kl", [5.0, 1.0, 0.0], [0.0, 0.9, 0.1], 3.0), [0, 1, 0])
        np.testing.assert_array_equal(step("kl", [5.0, 1.0, 0.0], [0.0, 0.0, 1.0], 3.0), [0, 0, 1])
        for kind in KINDS:
            np.testing.assert_array_equal(step(kind, [7.0], [1.0], 0.1), [1.0])
        np.testing.assert_allclose(step("tv", [1.0, 0.0], [1e-300, 1.0], 1e-9), [1e-9, 1 - 1e-9], rtol=1e-15)
        tiny = step("tv", [1.0, 0.0], [1 - 1e-12, 1e-12], 1e-13)
        np.testing.assert_allclose(tiny, [1 - 9e-13, 9e-13], rtol=1e-15)  # what is left is right to all digits


def test_two_actions_of_the_total_variation_ball():
    anchor = np.linspace(0, 1, 21)
    policy = step("tv", [1.0, -1.0], np.stack([anchor, 1 - anchor], -1), 0.2)
    np.testing.assert_allclose(policy[:, 0], np.minimum(anchor + 0.2, 1), rtol=1e-15)


def test_a_small_relative_entropy_ball_is_a_natural_gradient_step(rng):
    """To first order ``p_a = anchor_a (1 + sqrt(2 radius / variance) (gains_a - mean))``, the error of order radius."""
    gains, anchor = rng.normal(size=6), rng.dirichlet(np.ones(6))
    mean = anchor @ gains
    variance = anchor @ (gains - mean) ** 2
    for radius in (1e-6, 1e-10, 1e-14, 1e-20):
        shift = step("kl", gains, anchor, radius) / anchor - 1
        np.testing.assert_allclose(shift, np.sqrt(2 * radius / variance) * (gains - mean), atol=30 * radius + 1e-15)


def test_pinsker(rng):
    """The ball of relative entropy 2 eta^2 lies in that of total variation eta."""
    gains, anchor = rng.normal(size=(300, 6)), rng.dirichlet(np.full(6, 0.5), 300)
    for eta in (0.01, 0.2, 0.5):
        inner, outer = step("kl", gains, anchor, 2 * eta**2), step("tv", gains, anchor, eta)
        assert (distance("tv", inner, anchor) <= eta + TOLERANCE).all()
        assert ((inner * gains).sum(-1) <= (outer * gains).sum(-1) + TOLERANCE).all()


# --- properties -----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS), st.sampled_from(["numba", "numpy"]), st.sampled_from([2, 3, 5, 40]), st.integers(0, 10**9)
)
def test_steps_are_distributions_in_the_ball_that_gain(kind, backend, A, seed):
    rng = np.random.default_rng(seed)
    gains, anchor, radius = wild(rng, A, 50)
    with kernels.using(backend):
        policy = step(kind, gains, anchor, radius, axis=0)
        wider = step(kind, gains, anchor, 1.5 * radius, axis=0)
    assert (policy >= 0).all()
    np.testing.assert_allclose(policy.sum(0), 1, atol=1e-14)
    assert (distance(kind, policy, anchor, 0) <= radius + TOLERANCE).all()
    relative = gains - gains.max(0)
    span = np.abs(relative).max(0) + 1e-300
    value, start, larger = ((p * relative).sum(0) / span for p in (policy, anchor, wider))
    assert (value >= start - 1e-14).all()
    assert (larger >= value - 1e-14).all()


def test_many_actions(rng):
    for kind in KINDS:
        gains, anchor, radius = wild(rng, 1000, 40)
        policy = step(kind, gains, anchor, radius, axis=0)
        assert (distance(kind, policy, anchor, 0) <= radius + TOLERANCE).all()
        np.testing.assert_allclose(policy.sum(0), 1, atol=1e-13)


def test_root_searches_stay_far_from_their_limit(rng):
    """Newton's method for most; a bisection of 30 decades is the worst case. Radii up to the edge of the ball."""
    gains, anchor, _ = wild(rng, 4, 4000)
    best = np.where((anchor > 0) & (gains == np.where(anchor > 0, gains, -np.inf).max(0)), anchor, 0).sum(0)
    edge = -np.log(best) * (1 - 10 ** rng.uniform(-16, 0, 4000))
    _, evaluations = trust_regions.largest_in_kl_ball(gains, anchor, np.maximum(edge, 0.0))
    assert np.median(evaluations) <= 12
    assert evaluations.max() < 80 < plain_trust_regions.MAX_STEPS
    _, evaluations = trust_regions.largest_in_kl_ball(
        rng.normal(size=(5, 1000)), rng.dirichlet(np.ones(5), 1000).T.copy(), np.full(1000, 0.08)
    )
    assert np.median(evaluations) <= 5


# --- versions, layouts, runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(5, 3, 7), (1, 1, 1), (13, 4, 1), (2, 6, 70), (3, 1000, 2)])
def test_versions_agree(sizes, rng):
    S, A, R = sizes
    gains, anchor, radius = wild(rng, A, S * R)
    gains, anchor = (np.ascontiguousarray(np.moveaxis(a.reshape(A, S, R), 0, 1)) for a in (gains, anchor))
    problem = gains, anchor, radius.reshape(S, R)
    strict = [array_api_strict.asarray(array) for array in problem]
    for name in ("largest_in_tv_ball", "largest_in_kl_ball"):
        versions = [
            getattr(plain_trust_regions, name)(*problem),
            getattr(trust_regions, name)(*problem),
            getattr(kernels, name)(*problem),
            getattr(kernels, name)(*strict),
        ]
        first, *others = [np.asarray(v[0] if isinstance(v, tuple) else v) for v in versions]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-7, atol=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_alone_and_beside_others(kind, rng):
    S, A, R = 4, 5, 23
    gains, anchor, radius = wild(rng, A, S * R)
    gains, anchor = (np.moveaxis(array.reshape(A, S, R), 0, 1) for array in (gains, anchor))
    radius = radius.reshape(S, 1, R)
    together = step(kind, gains, anchor, radius, axis=1)
    for runs in ([0], [22], [3, 17]):
        alone = step(kind, gains[..., runs], anchor[..., runs], radius[..., runs], axis=1)
        np.testing.assert_array_equal(alone, together[..., runs])
    np.testing.assert_array_equal(step(kind, gains[2], anchor[2], radius[2], axis=0), together[2])


@pytest.mark.parametrize("kind", KINDS)
def test_any_axis_layout_and_broadcast(kind, rng):
    gains, anchor = rng.normal(size=(3, 4, 5, 2)), np.moveaxis(rng.dirichlet(np.ones(5), (3, 4, 2)), -1, 2)
    expected = step(kind, np.moveaxis(gains, 2, -1), np.moveaxis(anchor, 2, -1), 0.1)
    for axis in range(4):
        for given_axis in (axis, axis - 4):
            policy = step(kind, np.moveaxis(gains, 2, axis), np.moveaxis(anchor, 2, axis), 0.1, given_axis)
            np.testing.assert_array_equal(np.moveaxis(policy, axis, -1), expected)
    strict = step(kind, array_api_strict.asarray(gains), array_api_strict.asarray(anchor), 0.1, 2)
    np.testing.assert_allclose(np.asarray(strict), np.moveaxis(expected, -1, 2), rtol=1e-9)
    radius = rng.uniform(0, 0.5, (4, 1, 2))  # by state and run; one anchor and one gain for several
    each = [
        [[step(kind, gains[n, s, :, r], anchor[0, s, :, 0], radius[s, 0, r]) for r in range(2)] for s in range(4)]
        for n in range(3)
    ]
    together = step(kind, gains, anchor[0, :, :, :1], radius, axis=2)
    np.testing.assert_array_equal(together, np.moveaxis(each, -1, 2))
    several = step(kind, gains[0, 0, :, 0], anchor[0, :, :, 0], [[0.1], [0.2], [0.3], [0.4]])
    assert several.shape == (4, 5)
    assert step(kind, np.zeros((0, 3)), np.zeros((0, 3)), 0.1).shape == (0, 3)
    assert step(kind, [1, 2], [1, 0], 0).dtype == np.float64


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("gains", "anchor", "radius", "axis", "sentence"),
    [
        (
            [[0.0, 1.0], [np.nan, 1.0]],
            [0.5, 0.5],
            0.1,
            -1,
            r"gains is nan at index \(1, 0\); every gain must",
        ),
        ([0.0, -np.inf], [0.5, 0.5], 0.1, -1, r"gains is -inf at index \(1,\)"),
        ([0.0, "a"], [0.5, 0.5], 0.1, -1, "gains must be an array of numbers"),
        (3.0, [1.0], 0.1, -1, "must be an array with an action axis"),
        (np.zeros((3, 0)), np.zeros((3, 0)), 0.1, -1, r"gains of shape \(3, 0\) have no actions along axis -1"),
        ([0.0, 1.0], [0.5, 0.5], 0.1, 1, r"gains of shape \(2,\) have no axis 1"),
        ([0.0, 1.0], [0.5, 0.6], 0.1, -1, "the sum of anchor over the actions is 1.1; it must be 1"),
        ([0.0, 1.0], [[0.5, 0.5], [0.1, 0.1]], 0.1, -1, r"the sum of anchor .* is 0.2 at index \(1,\); it must be 1"),
        ([0.0, 1.0], [1.5, -0.5], 0.1, -1, r"anchor is -0.5 at index \(1,\); probabilities must be at least 0"),
        ([0.0, 1.0], [np.nan, 1.0], 0.1, -1, r"anchor is nan at index \(0,\)"),
        ([0.0, 1.0], [0.2, 0.3, 0.5], 0.1, -1, r"anchor of shape \(3,\) does not fit gains of shape \(2,\)"),
        ([0.0, 1.0], 1.0, 0.1, -1, r"anchor of shape \(\) does not fit"),
        ([0.0, 1.0], [0.5, 0.5], -0.1, -1, r"radius is -0.1; it must be at least 0"),
        ([0.0, 1.0], [0.5, 0.5], [[0.1], [np.nan]], -1, r"radius is nan at index \(1, 0\); it must be at least 0"),
        ([0.0, 1.0], [0.5, 0.5], [0.1, 0.2], -1, r"radius of shape \(2,\) differs between the actions"),
        (np.zeros((3, 2)), [0.5, 0.5], np.zeros((2, 1)), -1, r"shapes \(3, 2\), \(2,\) and \(2, 1\) do not broadcast"),
    ],
)
def test_errors_say_what_and_where(kind, gains, anchor, radius, axis, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        step(kind, gains, anchor, radius, axis)


def test_a_root_that_is_not_found_is_an_error(monkeypatch):
    monkeypatch.setattr("tabpo.kernels.plain_trust_regions.MAX_STEPS", 3)
    monkeypatch.setattr("tabpo.trust_regions.MAX_STEPS", 3)
    with kernels.using("numpy"), pytest.raises(InvalidInputError, match=r"no tilt .* found for radius 0\.3"):
        step("kl", [[0.0, 1e8, 3.0]], [1 - 2e-12, 1e-12, 1e-12], 0.3)
