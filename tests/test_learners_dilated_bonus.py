"""Dilated bonuses: its box against a slow loop, what its two bonuses cover by enumeration, and its step size."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabpo import Environment, TabularMDP, kernels, planning, simulate
from tabpo.errors import InvalidInputError
from tabpo.kernels import Boxes
from tabpo.learners import DAPO, Feedback, Problem
from tabpo.learners.dilated_bonus_po import DilatedBonusPO, DilatedBonusPOParameters
from tabpo.learners.protocol import Arrivals
from tests.conftest import random_policy
from tests.enumeration import all_trajectories, probabilities
from tests.reference_unknown import Sets, dapo_term, play

H, S, A, K = 3, 3, 2, 30
GAMMA = 0.05


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    mdp = TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), np.array([0.5, 0.0, 0.5]))
    return mdp, rng.random((K, H, S, A))


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_unknown_transitions_against_a_slow_loop(world, backend):
    mdp, losses = world
    iota = math.log(H * S * A * K / 0.1)
    term = dapo_term(mdp.initial, GAMMA, 0.3, 0.2, adapt=False, dilation=1 / H)
    sets = Sets(H, S, A, (4.0, 28 / 3, iota), 0.03, "epoch")
    expected, _ = play(mdp.transitions, mdp.initial, losses, [0] * K, term, sets, 0.15, 5, 1)
    make = partial(
        DilatedBonusPO,
        transitions="unknown",
        step_size=0.15,
        exploration=GAMMA,
        bonus_scale=0.3,
        bias_scale=0.2,
        width_scale=0.03,
    )
    with kernels.using(backend):
        result = simulate(Environment(mdp, losses), make, K, 2, 5, checkpoints=range(1, K + 1))
    np.testing.assert_allclose(np.diff(result.expected_loss[:, 1], prepend=0.0), expected, rtol=0, atol=1e-12)


def test_known_transitions_two_episodes_by_hand(world):
    """H = 2, one run: the policies from the formulas of section 8c with b = eta H^2 A / (mu + gamma)."""
    p, initial, losses = world[0].transitions[:2], world[0].initial, world[1][:2, :2]
    eta, gamma = 0.3, 0.1
    learner = DilatedBonusPO(Problem(TabularMDP(p, initial), 2, 1, 0, 0), step_size=eta, exploration=gamma)
    total = np.zeros((2, S, A))
    for k, (states, actions) in enumerate([((0, 1), (1, 0)), ((2, 2), (0, 1))]):
        weights = np.exp(-eta * total)
        policy = weights / weights.sum(2, keepdims=True)
        np.testing.assert_allclose(learner.act(k)[..., 0], policy, atol=1e-13)
        mu = np.stack([initial, np.einsum("s,sa,sap->p", initial, policy[0], p[0])])
        b = eta * 4 * A / (mu + gamma)
        last = np.repeat(b[1][:, None], A, 1)
        first = b[0][:, None] + 1.5 * p[0] @ (policy[1] * last).sum(1)
        observed = losses[k, [0, 1], states, actions]
        total -= np.stack([first, last])
        for h, to_go in enumerate((observed.sum(), observed[1])):
            at = h, states[h], actions[h]
            total[at] += to_go / (mu[at[:2]] * policy[at] + gamma)
        columns = (np.array(x)[:, None] for x in (states, actions, observed))
        learner.learn(k, Arrivals((Feedback(k, *columns, learner.act(k), mu[..., None]),)))
    weights = np.exp(-eta * total)
    np.testing.assert_allclose(learner.act(2)[..., 0], weights / weights.sum(2, keepdims=True), atol=1e-13)


def test_without_width_it_is_dapo_with_its_dilation_for_known_transitions(world):
    mdp, losses = world
    parameters = {"step_size": 0.15, "exploration": GAMMA, "bonus_scale": 0.3}

    def with_the_true_sets(problem):
        learner = DilatedBonusPO(problem, transitions="unknown", **parameters)
        row = np.repeat(mdp.transitions[..., None], problem.n_runs, axis=-1)
        learner.model.sets.boxes = Boxes(row, row).packed
        learner.model.observe = lambda arrivals: None
        return learner

    makes = (partial(DAPO, adapt=False, dilation=True, **parameters), with_the_true_sets)
    known, twin = (simulate(Environment(mdp, losses, 2), make, K, 3, 5) for make in makes)
    np.testing.assert_allclose(twin.expected_loss, known.expected_loss, rtol=0, atol=1e-11)


def test_parameters_follow_the_theorem():
    """Section 8c at H, S, A = 2, 3, 2: min{1/192, 1/(2 sqrt(6 K))}; the first at K = 100, the second at K = 10000."""

    def resolved(n_episodes, **parameters):
        mdp = TabularMDP(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3))
        return [float(x[0]) for x in DilatedBonusPOParameters(**parameters).resolve(Problem(mdp, n_episodes, 1, 50, 5))]

    assert resolved(100) == pytest.approx([1 / 192, 4 / 192, 1.0])
    assert resolved(10_000) == pytest.approx([1 / (2 * math.sqrt(60_000)), 2 / math.sqrt(60_000), 1.0])
    assert resolved(100, tuning="practical") == pytest.approx([650**-0.5, 2 * 650**-0.5, 0.1])
    with pytest.raises(InvalidInputError, match="exploration must be finite and positive, got 0"):
        DilatedBonusPO(Problem(TabularMDP(np.ones((1, 1, 2, 1)), np.ones(1)), 10, 1, 0, 0), exploration=0.0)


def moments(transitions, initial, losses, pi, upper, gamma):
    """Return ``E<pi, Q - Qhat>`` and ``E<pi, Qhat^2>`` at every (h, s), over all trajectories."""
    states, actions = all_trajectories(initial, *losses.shape)
    n = states.shape[1]
    to_go = np.cumsum(losses[np.arange(len(states))[:, None], states, actions][::-1], axis=0)[::-1]
    wide = np.repeat(pi, n, -1)
    visited = kernels.importance_weighted(
        to_go, wide, wide, np.repeat(upper, n, -1), states, actions, np.full(n, gamma), False
    )
    estimates = kernels.add_at_trajectory(np.zeros_like(wide), states, actions, visited)
    weights = probabilities(transitions, initial, wide, states, actions)
    q, _ = planning.evaluate(transitions, losses, pi[..., 0])
    bias = (pi[..., 0] * (q - estimates @ weights)).sum(2)
    return bias, (pi[..., 0] * (estimates**2 @ weights)).sum(2)


INSTANCES = {
    "sizes": st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    "concentration": st.sampled_from([0.05, 0.3, 1.0]),
    "step_size": st.sampled_from([1e-4, 1e-3, 1e-2]),
    "seed": st.integers(0, 2**32 - 1),
}


def instance(sizes, concentration, seed):
    H, S, A = sizes
    rng = np.random.default_rng(seed)
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S))
    losses = rng.random((H, S, A)) if seed % 2 else np.ones((H, S, A))
    return rng, transitions, initial, losses, random_policy(rng, H, S, A, 1, concentration)


@given(**INSTANCES)
@settings(max_examples=40, deadline=None)
def test_simple_bonus_covers_the_variance_and_three_times_it_the_bias_as_well(sizes, concentration, step_size, seed):
    """Known transitions, gamma = 2 eta H: eta E<pi, Qhat^2> <= b, and E<pi, Q - Qhat> + eta E<pi, Qhat^2> <= 3 b."""
    _, transitions, initial, losses, pi = instance(sizes, concentration, seed)
    learner = DilatedBonusPO(Problem(TabularMDP(transitions, initial), 10, 1, 0, 0), step_size=step_size)
    gamma = float(learner.exploration[0])
    assert gamma == pytest.approx(2 * step_size * sizes[0])
    mu = planning.state_occupancy(transitions, initial, pi)
    bias, second = moments(transitions, initial, losses, pi, mu, gamma)
    feedback = Feedback(0, None, None, None, pi, mu)
    bonus = learner.bonus(feedback, mu, None)[..., 0]
    assert (step_size * second <= bonus * (1 + 1e-9)).all()
    assert (bias + step_size * second <= 3 * bonus * (1 + 1e-9)).all()


def test_simple_bonus_alone_does_not_cover_the_bias():
    """One state, loss 1, uniform policy: the bias is 2 eta A / (1 + A gamma), the bonus eta A / (1 + gamma)."""
    given = TabularMDP(np.ones((1, 1, 2, 1)), np.ones(1))
    learner = DilatedBonusPO(Problem(given, 10, 1, 0, 0), step_size=1e-3)
    pi, mu = np.full((1, 1, 2, 1), 0.5), np.ones((1, 1, 1))
    bias, _ = moments(given.transitions, given.initial, np.ones((1, 1, 2)), pi, mu, 2e-3)
    assert bias[0, 0] == pytest.approx(4e-3 / 1.004)
    assert float(learner.bonus(Feedback(0, None, None, None, pi, mu), mu, None)[0, 0, 0]) == pytest.approx(2e-3 / 1.002)


@given(**INSTANCES)
@settings(max_examples=40, deadline=None)
def test_wide_bonus_covers_bias_and_variance_and_stays_small(sizes, concentration, step_size, seed):
    """Unknown transitions: bias and variance as in U2 and P4, and eta H B <= 1/2 for eta <= 1 / (24 H^3)."""
    H, S, A = sizes
    rng, transitions, initial, losses, pi = instance(sizes, concentration, seed)
    centre = 0.5 * transitions + 0.5 * rng.dirichlet(np.ones(S), (H, S, A))
    step_size = min(step_size, 1 / (24 * H**3))
    learner = DilatedBonusPO(
        Problem(TabularMDP(transitions, initial), 10, 1, 0, 0), transitions="unknown", step_size=step_size
    )
    boxes = Boxes.around(centre[..., None], np.abs(transitions - centre)[..., None] + 1e-15)
    learner.model.sets.boxes = boxes.packed
    learner.policy = pi
    upper, lower, sets = learner.notes(0)
    bonus = learner.bonus(Feedback(0, None, None, None, pi, None), upper, lower)[..., 0]
    gamma = float(learner.exploration[0])
    bias, second = moments(transitions, initial, losses, pi, upper, gamma)
    below = upper[:, :, 0, None] * pi[..., 0] + gamma
    exploring = 3 * gamma * H * (pi[..., 0] / below).sum(2)
    assert (bias <= exploring / 3 + (bonus - exploring) + 1e-9).all()
    assert (step_size * second <= exploring / 6 * (1 + 1e-9)).all()

    bonus_q, values = learner.model.bonus_values(bonus[:, :, None, None], pi, learner.dilation, sets)
    assert float(step_size * H * bonus_q.max()) <= 0.5  # so that eta <pi, B^2> <= <pi, B> / H, and eta B <= 1
    # L8 with the largest expectation over a set that holds the truth: "=" becomes "<="
    best = random_policy(rng, H, S, A, 1)
    best_mu = planning.state_occupancy(transitions, initial, best)
    drift = (best_mu[:, :, None] * ((pi - best) * bonus_q + pi * bonus_q / H)).sum()
    assert drift + (best_mu[..., 0] * bonus).sum() <= (1 + 1 / H) * float(initial @ values[0, :, 0]) + 1e-9
