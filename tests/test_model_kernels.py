"""The empirical model: its kernels' versions agree, its least means are those of a linear programme, what it counts."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import linprog

from tabpo import kernels
from tabpo.kernels import compiled_models, plain_models
from tabpo.learners.empirical import EmpiricalModel, greedy_policy
from tabpo.learners.protocol import Arrivals, Feedback, Trajectory
from tests.optimistic_pieces import problem


def model_arguments(name, rng, n_states, n_actions, n_runs):
    counts = rng.integers(0, 4, (n_states, n_actions, n_states, n_runs)) * (
        rng.random((n_states, n_actions, 1, 1)) < 0.8
    )
    visits, values = counts.sum(2), rng.random((n_states, n_runs))
    width = 2 * rng.random((n_states, n_actions, n_runs))
    return {
        "empirical_mean": (counts, visits, values),
        "empirical_variance": (counts, visits, values, width),
        "least_mean": (counts, visits, width, values),
    }[name]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 3, 7), (13, 2, 1), (4, 6, 33)])
@pytest.mark.parametrize("name", kernels.MODEL_KERNELS)
def test_kernels_agree_and_take_each_run_by_itself(name, sizes, rng):
    arguments = model_arguments(name, rng, *sizes)
    reference = getattr(plain_models, name)(*arguments)
    strict = getattr(kernels, name)(*map(array_api_strict.asarray, arguments))
    together = getattr(compiled_models, name)(*arguments)
    for other in (together, np.asarray(strict), getattr(kernels, name)(*arguments)):
        np.testing.assert_allclose(other, reference, rtol=0, atol=1e-13)
    for r in range(sizes[-1]):
        alone = [np.ascontiguousarray(argument[..., r : r + 1]) for argument in arguments]
        np.testing.assert_array_equal(getattr(compiled_models, name)(*alone)[..., 0], together[..., r])


def linear_programme(share, radius, values):
    """min <p, v> with p in the simplex and |p - share|_1 <= radius, written with p - share = up - down."""
    n = len(values)
    cost = np.concatenate([values, -values])
    total = np.concatenate([np.ones(n), -np.ones(n)])[None]
    upper = [np.ones((1, 2 * n)), np.hstack([-np.eye(n), np.eye(n)])]
    solved = linprog(cost, np.vstack(upper), np.concatenate([[radius], share]), total, [0.0])
    return share @ values + solved.fun


def test_inner_minimum_against_a_linear_programme(rng):
    n_states, n_runs = 5, 12
    counts = rng.integers(0, 4, (n_states, 2, n_states, n_runs)) * rng.integers(0, 2, (n_states, 2, n_states, n_runs))
    visits = counts.sum(2)
    radius = rng.choice([0.0, 0.3, 1.0, 1.9, 5.0], (n_states, 2, n_runs))
    values = np.round(3 * rng.random((n_states, n_runs)), 1)  # some are equal
    got = kernels.least_mean(counts, visits, radius, values)
    for s, a, r in np.ndindex(got.shape):
        v = values[:, r]
        if visits[s, a, r] == 0:
            assert got[s, a, r] == v.min()
            continue
        expected = linear_programme(counts[s, a, :, r] / visits[s, a, r], radius[s, a, r], v)
        assert got[s, a, r] == pytest.approx(expected, abs=1e-9)


def test_what_is_counted_and_when():
    """A trajectory seen at once, its losses two episodes later; epochs end with either."""
    model = EmpiricalModel(problem((2, 2, 2), n_runs=2))
    states, actions = np.array([[0, 1], [1, 1]]), np.array([[0, 0], [1, 0]])
    assert not model.observe(Arrivals())
    assert model.observe(Arrivals((), (Trajectory(0, states, actions),)))
    assert model.counts.transitions[0, 0, 0, 1].tolist() == [1, 0]
    assert model.begin_epochs().all()
    assert not model.mean_losses.any()
    policy = np.full((2, 2, 2, 2), 0.5)
    for losses, began in (([0.2, 0.4], True), ([0.4, 0.8], True), ([0.9, 0.9], False), ([0.5, 0.5], True)):
        observed = np.stack([losses, losses])
        assert model.observe(Arrivals((Feedback(0, states, actions, observed, policy, policy[:, :, 0]),)))
        assert model.begin_epochs().tolist() == [began] * 2
    np.testing.assert_allclose(model.mean_losses[1, 1, 1], [0.5, 0.0])
    np.testing.assert_allclose(model.mean_losses[0, 1, 0], [0.0, 0.65])


def test_greedy_ties_go_to_the_lowest_action():
    q = np.array([[2.0, 1.0, 1.0], [0.0, 0.0, 0.0]])[None, :, :, None]
    assert greedy_policy(q)[0, :, :, 0].tolist() == [[0, 1, 0], [1, 0, 0]]
