"""Means of what best-of-both-worlds learners add to their losses, over every trajectory of a tiny MDP."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tabpo import kernels, planning
from tabpo.learners import Feedback
from tabpo.learners.protocol import Arrivals
from tests.bobw_pieces import EVERY, problem, random_model
from tests.enumeration import all_trajectories, probabilities

H, S, A = 3, 2, 2
every_learner = pytest.mark.parametrize("name", EVERY)


@pytest.fixture
def world(rng):
    mdp = random_model(rng, H, S, A)
    return mdp, rng.random((H, S, A)), all_trajectories(mdp.initial, H, S, A)


def at_a_policy(learner, k, rng):
    """Give the learner losses far from those that it had, and return its policy of episode k and what it notes."""
    learner.losses = np.repeat(rng.exponential(1.5, (H, S, A, 1)), learner.losses.shape[-1], axis=-1)
    return learner.act(k), learner.notes(k)


def gained(learner, k, j, monkeypatch):
    """Return what learn subtracts from the losses when feedback j arrives, ``B - Qhat`` (H, S, A, R)."""
    seen = []
    accumulate = kernels.accumulate

    def watch(losses, gains):
        seen.append(gains.copy())
        return accumulate(losses, gains)

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "accumulate", watch)
        learner.learn(k, Arrivals((j,)))
    return seen[0]


@every_learner
@pytest.mark.parametrize("c", [0.0, 0.7])
@pytest.mark.parametrize("transitions", ["known", "unknown"])
@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
def test_estimates_are_unbiased_up_to_the_bound_of_the_occupancy(
    world, name, c, transitions, delayed, rng, monkeypatch
):
    """``E Qhat = r (mu / d) Q`` with r = pi / max(pi, policy in force); all 64 trajectories are runs side by side."""
    mdp, losses, (states, actions) = world
    n = states.shape[1]
    make = partial(EVERY[name], transitions=transitions, tuning="practical", exploration=c)
    if transitions == "unknown":
        make = partial(make, width_scale=0.05)
    learner = make(problem(mdp, n_runs=n))
    policy, played = at_a_policy(learner, 0, rng)
    in_force = at_a_policy(learner, 1, rng)[0] if delayed else policy
    mu = kernels.state_occupancy(mdp.transitions, mdp.initial, policy)
    weights = probabilities(mdp.transitions, mdp.initial, policy, states, actions)
    observed = losses[np.arange(H)[:, None], states, actions]
    j = Feedback(0, states, actions, observed, policy, mu, played)
    k = 1 if delayed else 0
    gains = gained(learner, k, j, monkeypatch)

    # Qhat is what the gains have only at the trajectory: B is read off runs of other trajectories.
    step = np.arange(H)[:, None]
    at = np.zeros((H, S, A, n), dtype=bool)
    at[step, states, actions, np.arange(n)] = True
    if name == "log_barrier":  # its bonus depends on the trajectory: taken from the same arrival without losses
        twin = make(problem(mdp, n_runs=n))
        twin.act(0)
        twin.losses, twin.policy = learner.losses.copy(), in_force
        bonus = twin.rates.learn(j, np.cumsum(observed[::-1], axis=0)[::-1])
        bonus = bonus[:, :, None, :] + (0 if played.bias is None else played.bias[:, :, None, :] * (1 - policy))
        B = twin.model.bonus_values(bonus + 0 * policy, policy, 1 / H, played.snapshot)[0]
    else:
        B = np.repeat(np.where(at, -np.inf, gains).max(axis=-1, keepdims=True), n, axis=-1)
    estimates = B - gains
    np.testing.assert_allclose(estimates[~at], 0, atol=1e-12)
    q, _ = planning.evaluate(mdp.transitions, losses, policy[..., 0])
    ratio = policy / np.maximum(policy, in_force)
    expected = (ratio * (mu / played.denominator)[:, :, None, :])[..., 0] * q
    np.testing.assert_allclose(estimates @ weights, expected, rtol=1e-10, atol=1e-12)
    assert transitions == "unknown" or c > 0 or delayed or np.abs(expected - q).max() < 1e-12
    assert not delayed or ratio.min() < 0.9


def test_log_barrier_increments_have_the_mean_of_their_variance(world, rng):
    """``E zeta = mu (pi(1-pi) for the action, pi^2 for others) E[L^2 | s]`` stays below ``(H-h)^2 mu pi (1 - pi)``."""
    mdp, losses, (states, actions) = world
    n = states.shape[1]
    learner = EVERY["log_barrier"](problem(mdp, n_runs=n), tuning="practical")
    policy, played = at_a_policy(learner, 0, rng)
    mu = kernels.state_occupancy(mdp.transitions, mdp.initial, policy)
    weights = probabilities(mdp.transitions, mdp.initial, policy, states, actions)
    observed = losses[np.arange(H)[:, None], states, actions]
    before = learner.rates.inverse_step.copy()
    learner.learn(0, Arrivals((Feedback(0, states, actions, observed, policy, mu, played),)))
    increase = (learner.rates.inverse_step - before) @ weights  # zeta / (3 d^2 ln T)
    zeta = increase * 3.0 * played.denominator[:, :, None, 0] ** 2 * np.log(100)
    pi = policy[..., 0]
    left = (H - np.arange(H))[:, None, None]
    assert (zeta <= left**2 * mu[:, :, None, 0] * pi * (1 - pi) * (1 + 1e-12)).all()
    # the last step by hand: L is the loss of the action played
    second = (pi[-1] * losses[-1] ** 2).sum(1, keepdims=True)
    own = pi[-1] * losses[-1] ** 2
    by_hand = mu[-1, :, :1] * ((1 - pi[-1]) ** 2 * own + pi[-1] ** 2 * (second - own))
    np.testing.assert_allclose(zeta[-1], by_hand, rtol=1e-10)
