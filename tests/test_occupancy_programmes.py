"""Programmes over occupancy measures: optimality conditions, the papers' dual, a general solver, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from tabpo import planning, regularizers
from tabpo.errors import TabpoError
from tabpo.learners import occupancy_programmes
from tabpo.learners.occupancy_leaders import RegularisedLeader
from tabpo.learners.occupancy_projections import OccupancyProjection, SetProjection, nearest_distribution
from tests.test_learners_o_reps import flow_residual, model

SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
SEEDS = st.integers(0, 2**32 - 1)


def confidence_set(rng, H, S, A, width):
    """Return bounds around random rows; with a width above 1 some of them are no bounds at all."""
    centre = rng.dirichlet(np.full(S, 0.5), (H - 1, S, A))
    radius = width * rng.random(centre.shape)
    return np.maximum(centre - radius, 0), np.minimum(centre + radius, 1)


def weights(rng, H, S, A, scale):
    """Return logarithms of weights: of pairs, a few of them lowered as by losses, and of next states."""
    of_pairs = np.log(rng.dirichlet(np.ones(S * A), H)).reshape(H, S, A)
    of_pairs -= scale * rng.random((H, S, A)) * (rng.random((H, S, A)) < 0.3)
    return of_pairs, np.log(rng.dirichlet(np.ones(S), (H - 1, S, A)))


def joint(of_pairs, of_next):
    """Return logarithms of q_h(s,a,s') = q_h(s,a) p_h(s'|s,a) before the last step, and of q_{H-1}(s,a)."""
    return of_pairs[:-1, ..., None] + of_next, of_pairs[-1]


def set_objective(logs, log_weights):
    return sum(float((np.exp(log_q) * (log_q - log_w)).sum()) for log_q, log_w in zip(logs, log_weights, strict=True))


# --- One row ----------------------------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 7), width=st.sampled_from([0.0, 0.1, 0.5, 2.0]), scale=st.sampled_from([1, 30, 1000]), seed=SEEDS
)
@settings(max_examples=150, deadline=None)
def test_nearest_distribution_is_a_clipped_multiple(n, width, scale, seed):
    """``ln p - ln w`` is the same for free entries, no larger for those at the top, no less for those at the bottom."""
    rng = np.random.default_rng(seed)
    low, high = (bound[0, 0, 0] for bound in confidence_set(rng, 2, n, 1, width))
    log_w = scale * rng.normal(size=n)
    log_p, free = nearest_distribution(log_w, low, high)
    p = np.exp(log_p)
    assert abs(p.sum() - 1) < 1e-12 * max(scale, 1)
    assert np.all(p >= low - 1e-13)
    assert np.all(p <= high + 1e-13)
    ratio = log_p - log_w
    may_fall, may_rise = free | (p < high - 1e-13), free | (p > low + 1e-13)
    if may_fall.any() and may_rise.any():
        assert ratio[may_rise].max() <= ratio[may_fall].min() + 1e-9 * scale


def test_nearest_distribution_of_many_rows_is_that_of_each(rng):
    low, high = confidence_set(rng, 3, 4, 2, 0.3)
    log_w = 5 * rng.normal(size=low.shape)
    together, _ = nearest_distribution(log_w, low, high)
    for row in np.ndindex(2, 4, 2):
        np.testing.assert_array_equal(nearest_distribution(log_w[row], low[row], high[row])[0], together[row])


# --- Sets of transitions ----------------------------------------------------------------------------------------------


def papers_multipliers(logs, log_weights, low, high):
    """Fit the multipliers of Jin et al. (2020) to a solution; return the dual's value and how badly the form fits.

    ``ln(q/w)(s,a,s') = v(s) - v(s') - (b+ - b-)(s') + sum_y [high b+ - low b-](y) - ln Z_h`` with b+ >= 0 where q is
    at its upper bound, b- >= 0 where it is at its lower one, and 0 elsewhere.
    """
    (log_q, last), (log_w, last_w) = logs, log_weights
    H, S, A = len(log_q) + 1, *last.shape
    p = np.exp(log_q - np.logaddexp.reduce(log_q, axis=-1, keepdims=True))
    v_index = np.arange(H * S).reshape(H, S)
    at_bound = [(where, 1) for where in zip(*np.nonzero(np.abs(p - high) < 1e-12), strict=True)]
    at_bound += [(where, -1) for where in zip(*np.nonzero(np.abs(p - low) < 1e-12), strict=True)]
    rows, right = [], []
    for h, s, a in np.ndindex(H, S, A):
        for x in range(S) if h + 1 < H else [None]:
            row = np.zeros(H * S + H + len(at_bound))
            row[v_index[h, s]] = 1
            row[H * S + h] = -1
            if x is not None:
                row[v_index[h + 1, x]] -= 1
                for i, (where, sign) in enumerate(at_bound):
                    if where[:3] == (h, s, a):
                        row[H * S + H + i] = sign * ((high if sign > 0 else low)[where] - (where[3] == x))
            rows.append(row)
            right.append(log_q[h, s, a, x] - log_w[h, s, a, x] if x is not None else last[s, a] - last_w[s, a])
    rows, right = np.array(rows), np.array(right)
    least = np.r_[np.full(H * S + H, -np.inf), np.zeros(len(at_bound))]
    fitted = lsq_linear(rows, right, (least, np.full(len(least), np.inf)), method="bvls", tol=1e-14).x
    return fitted[:S], -float(fitted[H * S : H * S + H].sum()), float(np.abs(rows @ fitted - right).max())


@given(sizes=SIZES, width=st.sampled_from([0.05, 0.3, 2.0]), scale=st.sampled_from([0.0, 1.0, 5.0]), seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_set_projection_solves_the_papers_programme(sizes, width, scale, seed):
    """Feasible, stationary with multipliers of the right signs, and no gap to the dual of the papers."""
    H, S, A = sizes
    rng = np.random.default_rng(seed)
    low, high = confidence_set(rng, H, S, A, width)
    initial, before = rng.dirichlet(np.ones(S)), weights(rng, H, S, A, scale)
    of_pairs, of_next = SetProjection(initial, low, high)(*before)
    p = np.exp(of_next)
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
    assert np.all(p >= low - 1e-13)
    assert np.all(p <= high + 1e-13)
    padded = np.concatenate([p, np.ones((1, S, A, S))])
    assert flow_residual(padded, initial, np.exp(of_pairs)) < 1e-9
    logs, log_weights = joint(of_pairs, of_next), joint(*before)
    v_first, minus_log_normalisers, misfit = papers_multipliers(logs, log_weights, low, high)
    assert misfit < 1e-7 * max(scale, 1)
    gap = set_objective(logs, log_weights) - (initial @ v_first + minus_log_normalisers)
    assert abs(gap) < 1e-7 * max(scale, 1)


@pytest.mark.parametrize(("width", "scale"), [(0.05, 3.0), (0.3, 1.0)])
def test_set_projection_against_a_general_solver(width, scale):
    """SLSQP on q_h(s,a,s'); its own tolerance is what is compared with."""
    H, S, A = 3, 2, 2
    rng = np.random.default_rng(7)
    low, high = confidence_set(rng, H, S, A, width)
    initial, before = rng.dirichlet(np.ones(S)), weights(rng, H, S, A, scale)
    mine = joint(*SetProjection(initial, low, high)(*before))
    log_w = np.concatenate([part.ravel() for part in joint(*before)])
    n = (H - 1) * S * A * S

    def parts(x):
        return x[:n].reshape(H - 1, S, A, S), x[n:].reshape(S, A)

    def flow(x):
        q, last = parts(x)
        leaving = [*q.sum((2, 3)), last.sum(1)]
        return np.concatenate([leaving[0] - initial, *(leaving[h + 1] - q[h].sum((0, 1)) for h in range(H - 1))])

    def within(x):
        q = parts(x)[0]
        total = q.sum(-1, keepdims=True)
        return np.concatenate([(q - low * total).ravel(), (high * total - q).ravel()])

    centre = (low + high) / (low + high).sum(-1, keepdims=True)
    occupancy = planning.occupancy(np.concatenate([centre, centre[:1]]), initial, planning.uniform_policy(H, S, A))
    start = np.concatenate([(occupancy[:-1, ..., None] * centre).ravel(), occupancy[-1].ravel()])
    solution = minimize(
        lambda x: float((x * (np.log(x) - log_w)).sum()),
        start,
        jac=lambda x: np.log(x) + 1 - log_w,
        bounds=[(1e-12, 1)] * len(start),
        constraints=[{"type": "eq", "fun": flow}, {"type": "ineq", "fun": within}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    found = np.concatenate([np.exp(part).ravel() for part in mine])
    np.testing.assert_allclose(solution.x, found, atol=2e-6)


@given(sizes=SIZES, branching=st.integers(1, 4), seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_set_of_one_model_is_the_known_model(sizes, branching, seed):
    """Ten steps from a common start: the same measures, hence policies, and rows that stay the model's."""
    H, S, A = sizes
    transitions, initial, rng = model(seed, H, S, A, min(branching, S))
    known, row = OccupancyProjection(transitions, initial), transitions[:-1]
    one = SetProjection(initial, row, row)
    known_logs = known(np.zeros((H, S, A)))
    with np.errstate(divide="ignore"):
        set_logs, of_next = known_logs, np.log(row)
    for _ in range(10):
        losses = 2.0 * rng.random((H, S, A)) * (rng.random((H, S, A)) < 0.2)
        known_logs = known(known_logs - losses)
        set_logs, of_next = one(set_logs - losses, of_next)
        np.testing.assert_allclose(np.exp(set_logs), np.exp(known_logs), atol=1e-8)
        np.testing.assert_allclose(np.exp(of_next), row, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_set_projection_of_steep_weights(seed):
    """Losses of hundreds at once, as after long silence, come down to half losses of half losses."""
    rng = np.random.default_rng(seed)
    H, S, A = 4, 4, 2
    low, high = confidence_set(rng, H, S, A, 0.1)
    initial, before = rng.dirichlet(np.ones(S)), weights(rng, H, S, A, 10 ** (2 + seed / 4))
    of_pairs, of_next = SetProjection(initial, low, high)(*before)
    padded = np.concatenate([np.exp(of_next), np.ones((1, S, A, S))])
    assert flow_residual(padded, initial, np.exp(of_pairs)) < 1e-9


# --- Regularised leaders ----------------------------------------------------------------------------------------------


def leader_objective(q, losses, root_weight, barrier_weight):
    return float((q * losses - root_weight * np.sqrt(q) - barrier_weight * np.log(q)).sum())


@given(
    sizes=SIZES,
    branching=st.integers(1, 4),
    root_weight=st.sampled_from([1.0, 30.0]),
    barrier_weight=st.sampled_from([0.0, 0.1, 5.0, 1e4]),
    scale=st.sampled_from([0.0, 1.0, 1e3]),
    seed=SEEDS,
)
@settings(max_examples=60, deadline=None)
def test_leader_is_feasible_and_stationary(sizes, branching, root_weight, barrier_weight, scale, seed):
    """The gradient is a combination of the flow equations' coefficients, found by least squares."""
    H, S, A = sizes
    transitions, initial, rng = model(seed, H, S, A, min(branching, S))
    losses = scale * rng.normal(size=(H, S, A))
    q, _ = RegularisedLeader(transitions, initial)(losses, root_weight, barrier_weight, np.zeros((H, S)))
    assert flow_residual(transitions, initial, q) < 1e-9
    inside = q > 0
    reachable = planning.state_occupancy(transitions, initial, planning.uniform_policy(H, S, A)) > 0
    np.testing.assert_array_equal(inside.any(2), reachable)
    gradient = losses[inside] - 0.5 * root_weight / np.sqrt(q[inside]) - barrier_weight / q[inside]
    coefficients = []
    for h, s, a in zip(*np.nonzero(inside), strict=True):
        row = np.zeros((H, S))
        row[h, s] = 1
        if h + 1 < H:
            row[h + 1] -= transitions[h, s, a]
        coefficients.append(row.ravel())
    # A pair of tiny occupancy has a huge gradient: weigh by the occupancy.
    weighted = q[inside, None] * np.array(coefficients)
    fitted = np.linalg.lstsq(weighted, q[inside] * gradient, rcond=None)[0]
    size = np.abs(q[inside] * gradient).max() + np.abs(q * losses).max() + 1
    assert np.abs(weighted @ fitted - q[inside] * gradient).max() < 1e-9 * size


@pytest.mark.parametrize(("root_weight", "barrier_weight"), [(3.0, 0.0), (3.0, 2.0), (1.0, 100.0)])
def test_leader_against_a_general_solver(root_weight, barrier_weight):
    H, S, A = 2, 3, 2
    transitions, initial, rng = model(5, H, S, A)
    losses = 4 * rng.normal(size=(H, S, A))
    q, _ = RegularisedLeader(transitions, initial)(losses, root_weight, barrier_weight, np.zeros((H, S)))
    start = planning.occupancy(transitions, initial, planning.uniform_policy(H, S, A))

    def flow(x):
        full = x.reshape(H, S, A)
        reached = [initial, *(np.einsum("sa,sap->p", full[h], transitions[h]) for h in range(H - 1))]
        return (full.sum(2) - np.array(reached)).ravel()

    size = root_weight + barrier_weight
    solution = minimize(
        lambda x: leader_objective(x.reshape(H, S, A), losses, root_weight, barrier_weight) / size,
        start.ravel(),
        jac=lambda x: (losses.ravel() - 0.5 * root_weight / np.sqrt(x) - barrier_weight / x) / size,
        bounds=[(1e-9, 1)] * q.size,
        constraints={"type": "eq", "fun": flow},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(solution.x.reshape(H, S, A), q, atol=2e-5)
    assert leader_objective(q, losses, root_weight, barrier_weight) <= size * (solution.fun + 1e-9)


def test_leader_of_one_state_is_the_bandits(rng):
    """With H = S = 1 the programme is that of Tsallis-INF, or of the log-barrier, on one simplex."""
    losses, zero = 10 * rng.random(5), np.zeros((1, 1))
    bandit = RegularisedLeader(np.ones((1, 1, 5, 1)), np.ones(1))
    roots, _ = bandit(losses[None, None], 3.0, 0.0, zero)
    np.testing.assert_allclose(roots[0, 0], regularizers.tsallis(losses, 2 / 3.0), atol=1e-10)
    barrier, _ = bandit(losses[None, None], 0.0, 0.7, zero)
    np.testing.assert_allclose(barrier[0, 0], regularizers.log_barrier(losses, 1 / 0.7), atol=1e-10)


def test_leader_of_large_losses_is_nearly_the_best_policy(rng):
    """Beside the best policy mixed with a uniform one, the regulariser costs what its values at both differ by."""
    H, S, A = 4, 3, 2
    transitions, initial, _ = model(3, H, S, A)
    losses = rng.random((H, S, A))
    policy, best = planning.best_in_hindsight(transitions, initial, losses)
    uniform = planning.uniform_policy(H, S, A)
    mixed = planning.occupancy(transitions, initial, 0.99 * policy + 0.01 * uniform)
    for scale in (1e3, 1e5):
        q, _ = RegularisedLeader(transitions, initial)(scale * losses, 1.0, 1.0, np.zeros((H, S)))
        most = (leader_objective(mixed, 0 * losses, 1.0, 1.0) + np.sqrt(q).sum()) / scale  # -ln q >= 0
        assert -1e-9 <= float((q * losses).sum()) - best <= float((mixed * losses).sum()) - best + most


def test_leader_from_another_start_is_the_same(rng):
    H, S, A = 4, 4, 3
    transitions, initial, _ = model(11, H, S, A)
    leader, losses = RegularisedLeader(transitions, initial), 50 * rng.normal(size=(H, S, A))
    cold, multipliers = leader(losses, 2.0, 0.5, np.zeros((H, S)))
    for start in (multipliers, multipliers + 3.0, 1e3 * rng.normal(size=(H, S))):
        np.testing.assert_allclose(leader(losses, 2.0, 0.5, start)[0], cold, atol=1e-9)


# --- What is not solved ----------------------------------------------------------------------------------------------


def test_an_unsolved_programme_is_an_error(monkeypatch, rng):
    monkeypatch.setattr(occupancy_programmes, "MOST_STEPS", 1)
    monkeypatch.setattr(occupancy_programmes, "SMALLEST_POWER", 1.0)
    transitions, initial, _ = model(3, 3, 3, 2)
    with pytest.raises(TabpoError, match=r"imbalance of flow of 0\.\d+, above 1e-10"):
        OccupancyProjection(transitions, initial)(-5 * rng.random((3, 3, 2)))
    with pytest.raises(TabpoError, match="imbalance of flow"):
        RegularisedLeader(transitions, initial)(5 * rng.random((3, 3, 2)), 1.0, 1.0, np.zeros((3, 3)))
