"""O-REPS: its projection against optimality conditions, a general solver and limits; its estimator; the learner."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tabpo import Environment, InvalidInputError, TabularMDP, planning, simulate
from tabpo.learners import OREPS, Feedback, Problem
from tabpo.learners.occupancy_projections import OccupancyProjection
from tabpo.learners.protocol import Arrivals
from tests.conftest import random_policy
from tests.enumeration import all_trajectories, probabilities


def model(seed, H, S, A, branching=None, point_start=False):
    """Return (transitions, initial); with a branching below S some states are never reached."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((H, S, A, S))
    for where in np.ndindex(H, S, A):
        successors = rng.choice(S, branching or S, replace=False)
        transitions[where][successors] = rng.dirichlet(np.ones(len(successors)))
    initial = np.eye(S)[0] if point_start else rng.dirichlet(np.ones(S))
    return transitions, initial, rng


def flow_residual(transitions, initial, q):
    """Return the largest violation of the equations that make q an occupancy measure, written out."""
    residual = np.abs(q[0].sum(1) - initial).max()
    for h in range(len(q) - 1):
        residual = max(residual, np.abs(q[h + 1].sum(1) - np.einsum("sa,sap->p", q[h], transitions[h])).max())
    return residual


def relative_entropy(q, log_weights):
    log_q = np.log(np.where(q > 0, q, 1.0))
    return float((q * (log_q - log_weights))[q > 0].sum())


def dual_of(transitions, initial, q, log_weights):
    """Return the dual value at multipliers fitted to ln(q/w), and how badly that form ``v_h(s) - p v - c_h`` fits."""
    H, S = transitions.shape[:2]
    rows, right = [], []
    for h, s, a in zip(*np.nonzero(q > 0), strict=True):
        row = np.zeros((H + 1, S + 1))
        row[h, s] += 1
        if h + 1 < H:
            row[h + 1, :S] -= transitions[h, s, a]
        row[h, S] = -1  # ln Z_h
        rows.append(row[:H].ravel())
        right.append(np.log(q[h, s, a]) - log_weights[h, s, a])
    rows, right = np.array(rows), np.array(right)
    fitted = np.linalg.lstsq(rows, right, rcond=None)[0]
    misfit = np.abs(rows @ fitted - right).max()
    multipliers = fitted.reshape(H, S + 1)
    return float(initial @ multipliers[0, :S] - multipliers[:, S].sum()), float(misfit)


@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3)),
    branching=st.integers(1, 2),
    point_start=st.booleans(),
    scale=st.sampled_from([0.0, 1.0, 10.0, 60.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=80, deadline=None)
def test_projection_is_feasible_with_zero_duality_gap(sizes, branching, point_start, scale, seed):
    H, S, A = sizes
    transitions, initial, rng = model(seed, H, S, A, min(branching, S), point_start)
    log_weights = -scale * rng.random((H, S, A))
    q = np.exp(OccupancyProjection(transitions, initial)(log_weights))
    assert flow_residual(transitions, initial, q) < 1e-8
    np.testing.assert_allclose(q.sum((1, 2)), 1, atol=1e-12)
    value, misfit = dual_of(transitions, initial, q, log_weights)
    assert misfit < 1e-9 * max(scale, 1)  # stationary: with feasibility, optimal
    assert relative_entropy(q, log_weights) == pytest.approx(value, abs=1e-8 * max(scale, 1))


@pytest.mark.parametrize(("branching", "point_start"), [(None, False), (1, True), (2, False)])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_projection_against_a_general_solver(branching, point_start, scale):
    """SLSQP on the primal problem, from the uniform policy's occupancy; its own tolerance is what is compared with."""
    H, S, A = 3, 3, 2
    transitions, initial, rng = model(5, H, S, A, branching, point_start)
    log_weights = -scale * rng.random((H, S, A))
    q = np.exp(OccupancyProjection(transitions, initial)(log_weights))
    start = planning.occupancy(transitions, initial, planning.uniform_policy(H, S, A))
    inside = start > 0
    assert (inside == (q > 0)).all()
    if branching == 1:
        assert not inside.all()  # unreachable states occur

    def spread(x):
        full = np.zeros((H, S, A))
        full[inside] = x
        return full

    def flow(x):
        full = spread(x)
        reached = [initial, *(np.einsum("sa,sap->p", full[h], transitions[h]) for h in range(H - 1))]
        return (full.sum(2) - np.array(reached))[inside.any(2)]

    solution = minimize(
        lambda x: relative_entropy(spread(x), log_weights),
        start[inside],
        jac=lambda x: np.log(x) + 1 - log_weights[inside],
        bounds=[(1e-12, 1)] * int(inside.sum()),
        constraints={"type": "eq", "fun": flow},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.abs(flow(solution.x)).max() < 1e-8
    np.testing.assert_allclose(spread(solution.x), q, atol=2e-6)
    assert relative_entropy(q, log_weights) <= relative_entropy(spread(solution.x), log_weights) + 1e-9


@pytest.mark.parametrize("scale", [100.0, 1000.0, 10_000.0])
def test_projection_of_a_steep_tilt_is_nearly_the_best_policy(scale):
    """KL(q|exp(-t c)) = t <q,c> - entropy, so <q,c> exceeds the optimum by at most H ln(S A) / t."""
    H, S, A = 4, 3, 2
    transitions, initial, rng = model(3, H, S, A)
    losses = rng.random((H, S, A))
    q = np.exp(OccupancyProjection(transitions, initial)(-scale * losses))
    assert flow_residual(transitions, initial, q) < 1e-8
    _, best = planning.best_in_hindsight(transitions, initial, losses)
    excess = float((q * losses).sum()) - best
    assert -1e-9 <= excess <= H * np.log(S * A) / scale


@pytest.mark.parametrize("seed", [69, 174, 288, 1000, 1001, 1002])
def test_projection_of_weights_steep_and_sparse(seed):
    """Single losses in the hundreds or thousands, few successors; the first three left Newton's method astray once."""
    rng = np.random.default_rng(seed)
    H, S, A = (int(rng.integers(1, most)) for most in (7, 7, 4))
    transitions, initial, _ = model(seed, H, S, A, int(rng.integers(1, S + 1)), rng.random() < 0.5)
    log_weights = -(10 ** rng.uniform(0, 4)) * rng.random((H, S, A))
    if rng.random() < 0.5:
        log_weights *= rng.random((H, S, A)) < 0.1
    q = np.exp(OccupancyProjection(transitions, initial)(log_weights))
    assert flow_residual(transitions, initial, q) < 1e-8


def test_projection_of_an_occupancy_is_itself(rng):
    transitions, initial, _ = model(8, 4, 3, 2)
    q = planning.occupancy(transitions, initial, random_policy(rng, 4, 3, 2, 1)[..., 0])
    np.testing.assert_allclose(np.exp(OccupancyProjection(transitions, initial)(np.log(q))), q, atol=1e-10)


def test_first_iterate_has_the_largest_entropy(rng):
    """Larger than that of 2000 random policies and of small changes of itself; uniform where the model is."""
    H, S, A = 3, 3, 2
    transitions, initial, _ = model(9, H, S, A)
    learner = OREPS(Problem(TabularMDP(transitions, initial), 10, 1, 0, 0))
    first = learner.act(0)[..., 0]
    q = planning.occupancy(transitions, initial, first)
    np.testing.assert_allclose(q, np.exp(learner.log_occupancy[..., 0]), atol=1e-10)

    def entropies(policies):
        q = planning.occupancy(transitions, initial, policies)
        return -np.sum(q * np.log(np.maximum(q, 1e-300)), axis=(0, 1, 2))

    others = random_policy(rng, H, S, A, 2000)
    near = 0.99 * first[..., None] + 0.01 * others
    largest = entropies(first[..., None])[0]
    assert (entropies(others) < largest).all()
    assert (entropies(near) < largest).all()
    symmetric = TabularMDP(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3))
    np.testing.assert_allclose(OREPS(Problem(symmetric, 10, 1, 0, 0)).act(0), 0.5, atol=1e-12)


@pytest.mark.parametrize("adapt", [True, False])
def test_a_step_with_the_estimator(adapt, rng):
    """Two arrivals, two runs: the next iterate minimises ``eta <q, chat> + KL(q|q^k)`` with chat written out."""
    H, S, A, eta, gamma = 2, 3, 2, 0.7, 0.05
    transitions, initial, _ = model(4, H, S, A)
    learner = OREPS(
        Problem(TabularMDP(transitions, initial), 10, 2, 0, 0), step_size=eta, exploration=gamma, adapt=adapt
    )
    acting = random_policy(rng, H, S, A, 2)
    mu = planning.state_occupancy(transitions, initial, acting)
    arrivals, before = [], learner.log_occupancy.copy()
    estimate = np.zeros((H, S, A, 2))
    for episode in range(2):
        states, actions = rng.integers(S, size=(H, 2)), rng.integers(A, size=(H, 2))
        losses = rng.random((H, 2))
        arrivals.append(Feedback(episode, states, actions, losses, acting, mu))
        for h in range(H):
            for r in range(2):
                s, a = states[h, r], actions[h, r]
                reach = mu[h, s, r] * acting[h, s, a, r]
                if adapt:
                    reach = max(reach, np.exp(before[h, s, a, r]))
                estimate[h, s, a, r] += losses[h, r] / (reach + gamma)
    learner.learn(5, Arrivals(tuple(arrivals)))
    for r in range(2):
        q = np.exp(learner.log_occupancy[..., r])
        assert flow_residual(transitions, initial, q) < 1e-8
        tilted = before[..., r] - eta * estimate[..., r]
        value, misfit = dual_of(transitions, initial, q, tilted)
        assert misfit < 1e-9
        assert relative_entropy(q, tilted) == pytest.approx(value, abs=1e-9)
        policy = learner.act(6)[..., r]
        np.testing.assert_allclose(planning.occupancy(transitions, initial, policy), q, atol=1e-9)


def test_estimator_mean_by_enumeration(rng):
    """``E chat = q^j / (max(q^j, q^k) + gamma) c``: of the tilts, over every trajectory as one run."""
    H, S, A, gamma = 2, 2, 2, 0.1
    transitions, initial, _ = model(6, H, S, A)
    states, actions = all_trajectories(initial, H, S, A)
    n = states.shape[1]
    learner = OREPS(Problem(TabularMDP(transitions, initial), 10, n, 0, 0), step_size=1.0, exploration=gamma)
    current = np.exp(learner.log_occupancy)
    tilts = []
    learner.projection = lambda tilted: tilts.append(tilted) or tilted
    acting = np.repeat(random_policy(rng, H, S, A, 1), n, -1)
    mu, losses = planning.state_occupancy(transitions, initial, acting), rng.random((H, S, A))
    observed = losses[np.arange(H)[:, None], states, actions]
    learner.learn(0, Arrivals((Feedback(0, states, actions, observed, acting, mu),)))
    estimates = np.log(current) - np.stack(tilts, axis=-1)
    weights = probabilities(transitions, initial, acting, states, actions)
    m = (mu[:, :, None] * acting)[..., 0]
    np.testing.assert_allclose(
        estimates @ weights, m / (np.maximum(m, current[..., 0]) + gamma) * losses, rtol=1e-9, atol=1e-12
    )


def test_learns_the_better_action():
    """One state, two actions of losses 0 and 1: 300 episodes cost 300 for the worse, below 60 on average to learn."""
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1), np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    result = simulate(Environment(mdp, delays=10), partial(OREPS, step_size=0.1), 300, 4, checkpoints=[300])
    assert result.regret.mean() < 60 < simulate(Environment(mdp), "uniform", 300).regret[-1, 0]


def test_only_numpy_arrays():
    import array_api_strict

    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1))
    with pytest.raises(InvalidInputError, match="simulate it with NumPy arrays"):
        OREPS(Problem(mdp, 10, 1, 0, 0, xp=array_api_strict))
