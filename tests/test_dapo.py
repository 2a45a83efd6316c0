"""DAPO piece by piece: golden values, the estimator by enumeration, the properties P1-P6 of the specification."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabpo import Environment, estimators, kernels, planning, simulate
from tabpo.errors import InvalidInputError
from tabpo.learners import DAPO, DAPOParameters, Feedback, Problem
from tabpo.learners.protocol import Arrivals
from tabpo.mdp import TabularMDP
from tests.conftest import golden, random_policy
from tests.enumeration import all_trajectories, probabilities

PIECES, SCRIPTED = golden("dapo_pieces"), golden("dapo_scripted_run")


def problem(transitions, initial, n_runs=1, n_episodes=10, total_delay=0):
    return Problem(TabularMDP(transitions, initial), n_episodes, n_runs, total_delay, total_delay)


@pytest.mark.parametrize("case", PIECES["cases"], ids=lambda case: f"H{case['H']}S{case['S']}A{case['A']}")
def test_golden_pieces(case):
    tolerance = {"rtol": 0, "atol": PIECES["tolerance"]}
    a = {key: np.array(value) for key, value in case.items() if isinstance(value, list)}
    gamma = case["exploration"]
    acting, arrival = a["acting_policy"], a["arrival_policy"]
    ratio = estimators.delay_adapted_ratio(acting, arrival)
    np.testing.assert_allclose(ratio, a["ratio"], **tolerance)
    mu = planning.state_occupancy(a["transitions"], a["initial"], acting)
    np.testing.assert_allclose(mu, a["state_occupancy"], **tolerance)
    q_values, _ = planning.evaluate(a["transitions"], a["losses"], acting)
    np.testing.assert_allclose(q_values, a["q_values"], **tolerance)

    states, actions = all_trajectories(a["initial"], *acting.shape)
    n = states.shape[1]
    estimates = every_estimate(a["losses"], acting, arrival, mu, states, actions, gamma)
    repeated = np.repeat(acting[..., None], n, -1)
    weights = probabilities(a["transitions"], a["initial"], repeated, states, actions)
    np.testing.assert_allclose(estimates @ weights, a["estimator_mean"], **tolerance)
    np.testing.assert_allclose(estimates**2 @ weights, a["estimator_second_moment"], **tolerance)

    # The pieces as the learner computes them: its state is the arrival policy, and one episode arrives.
    learner = DAPO(
        problem(a["transitions"], a["initial"]), step_size=case["step_size"], exploration=gamma, bonus_scale=1.0
    )
    bonus = kernels.exploration_bonus(
        acting[..., None], arrival[..., None], mu[..., None], learner.exploration, learner.bonus_weight, True
    )
    np.testing.assert_allclose(bonus[..., 0], a["bonus"], **tolerance)
    for dilation, name in ((0.0, "bonus_q"), (1 / len(mu), "bonus_q_dilated")):
        bonus_q, _ = kernels.q_values(learner.model.transitions, bonus[:, :, None, :], acting[..., None], dilation)
        np.testing.assert_allclose(bonus_q[..., 0], a[name], **tolerance)
    states, actions = a["trajectory_states"], a["trajectory_actions"]
    losses = a["losses"][np.arange(len(states)), states, actions]
    np.testing.assert_allclose(
        estimators.q_estimate(losses, acting, arrival, mu, states, actions, gamma), a["estimator"], **tolerance
    )
    learner.log_weights, learner.policy = np.log(arrival)[..., None], arrival[..., None]
    feedback = Feedback(0, states[:, None], actions[:, None], losses[:, None], acting[..., None], mu[..., None])
    learner.learn(3, Arrivals((feedback,)))
    np.testing.assert_allclose(learner.policy[..., 0], a["updated_policy"], **tolerance)


def every_estimate(losses, acting, arrival, mu, states, actions, gamma):
    """Return the estimate (H, S, A, N) that each trajectory would give."""
    n = states.shape[1]
    observed = losses[np.arange(len(states))[:, None], states, actions]
    wide = [np.repeat(x[..., None], n, axis=-1) for x in (acting, arrival, mu)]
    return estimators.q_estimate(observed, *wide, states, actions, gamma)


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_golden_scripted_run(backend):
    with kernels.using(backend):
        scripted_run()


def scripted_run():
    a = {key: np.array(value) for key, value in SCRIPTED.items() if isinstance(value, list)}
    K = len(a["delays"])
    learner = DAPO(
        problem(a["transitions"], a["initial"], n_episodes=K),
        step_size=SCRIPTED["step_size"],
        exploration=SCRIPTED["exploration"],
    )
    tolerance = {"rtol": 0, "atol": SCRIPTED["tolerance"]}
    pending: dict[int, list[Feedback]] = {}
    expected, lost = [], 0
    for k in range(K):
        policy = learner.act(k).copy()
        np.testing.assert_allclose(policy[..., 0], a["policies"][k], **tolerance)
        mu = kernels.state_occupancy(a["transitions"], a["initial"], policy)
        expected.append(kernels.expected_loss(mu, policy, a["losses"][k][..., None])[0])
        states, actions = a["states"][k][:, None], a["actions"][k][:, None]
        losses = a["losses"][k][np.arange(len(states))[:, None], states, actions]
        arrives = k + a["delays"][k]
        lost += arrives >= K
        pending.setdefault(arrives, []).append(Feedback(k, states, actions, losses, policy, mu))
        learner.learn(k, Arrivals(tuple(pending.pop(k, ()))))
    np.testing.assert_allclose(learner.policy[..., 0], a["final_policy"], **tolerance)
    np.testing.assert_allclose(expected, a["expected_losses"], **tolerance)
    _, best = planning.best_in_hindsight(a["transitions"], a["initial"], a["losses"].sum(0))
    assert best == pytest.approx(SCRIPTED["best_in_hindsight_total"], abs=SCRIPTED["tolerance"])
    assert sum(expected) - best == pytest.approx(SCRIPTED["final_regret"], abs=1e-9)
    assert lost == SCRIPTED["lost_feedback"]


@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3)),
    concentration=st.sampled_from([0.05, 0.3, 1.0]),
    gamma=st.sampled_from([0.0, 1e-3, 0.1]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_estimator_mean_variance_and_bonus(sizes, concentration, gamma, seed):
    """P1-P6, the means over all trajectories; a small concentration puts acting and arrival policy far apart."""
    H, S, A = sizes
    rng = np.random.default_rng(seed)
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S))
    losses = rng.random((H, S, A))
    # The smallest probabilities are kept above 1e-6: the second moment is checked relative to its own size.
    acting, sigma = (0.999999 * random_policy(rng, H, S, A, 1, concentration)[..., 0] + 1e-6 / A for _ in range(2))
    mu = planning.state_occupancy(transitions, initial, acting)
    m = mu[:, :, None] * acting
    q_values, _ = planning.evaluate(transitions, losses, acting)
    r = estimators.delay_adapted_ratio(acting, sigma)
    states, actions = all_trajectories(initial, H, S, A)
    repeated = np.repeat(acting[..., None], states.shape[1], -1)
    weights = probabilities(transitions, initial, repeated, states, actions)
    estimates = every_estimate(losses, acting, sigma, mu, states, actions, gamma)

    mean = estimates @ weights
    np.testing.assert_allclose(mean, r * m / (m + gamma) * q_values, rtol=1e-9, atol=1e-12)  # P1
    assert (mean <= q_values * (1 + 1e-9)).all()
    np.testing.assert_allclose(sigma * r, np.minimum(sigma, acting), atol=1e-15)  # P2
    distance = np.abs(sigma - acting).sum(2) / 2
    np.testing.assert_allclose((sigma * (1 - r)).sum(2), distance, atol=1e-12)
    if gamma == 0:
        return
    ones = np.ones(1)
    bonus = kernels.exploration_bonus(
        acting[..., None], sigma[..., None], mu[..., None], gamma * ones, 3 * gamma * H * ones, True
    )[..., 0]
    slack = 1e-9
    assert ((sigma * (q_values - mean)).sum(2) <= H * distance + bonus / 3 + slack).all()  # P3
    second = (sigma[..., None] * estimates**2).sum(2) @ weights
    assert (second <= H * bonus / (3 * gamma) * (1 + slack)).all()  # P4
    bonus_q, values = planning.evaluate(transitions, np.repeat(bonus[:, :, None], A, 2), acting)
    assert (bonus <= 3 * H + slack).all()  # P5
    assert (bonus_q <= 3 * H * (H - np.arange(H)[:, None, None]) + slack).all()
    assert initial @ values[0] == pytest.approx((mu * bonus).sum(), rel=1e-9)  # P6
    assert initial @ values[0] <= 3 * gamma * H**2 * S * A + slack
    # L8: the bonus identity against any comparator, here a random policy
    other = random_policy(rng, H, S, A, 1)[..., 0]
    other_mu = planning.state_occupancy(transitions, initial, other)
    paid = (other_mu[:, :, None] * (acting - other) * bonus_q).sum()
    assert paid == pytest.approx(initial @ values[0] - (other_mu * bonus).sum(), abs=1e-9)


def test_delay_adapted_ratio_at_the_edges():
    ratio = estimators.delay_adapted_ratio(np.array([0.0, 0.0, 0.5, 0.1]), np.array([0.0, 0.3, 0.1, 0.5]))
    np.testing.assert_array_equal(ratio, [1.0, 0.0, 1.0, 0.2])


def test_variance_with_and_without_adaptation():
    """The normalised second moments of section 7, as rounded there."""
    for e, adapted, plain in ((0.1, (0.43, 2), (17.5, 1)), (0.01, (0.03, 2), (138, 0))):
        acting, sigma, mu, gamma = np.array([1 - e, e]), np.array([e, 1 - e]), 0.5, 1e-3
        for ratio, expected in ((estimators.delay_adapted_ratio(acting, sigma), adapted), (1.0, plain)):
            moment = (sigma * mu * acting * (ratio / (mu * acting + gamma)) ** 2).sum()
            assert round(moment, expected[1]) == expected[0]


def test_parameters_follow_the_theorem():
    """Section 2.4 at H, S, A = 2, 3, 2, K = 100, D = 50: eta = (4*6*100 + 16*150)^(-1/2) = 4800^(-1/2)."""
    given = problem(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3), n_episodes=100, total_delay=50)
    eta, gamma, scale = (float(x[0]) for x in DAPOParameters().resolve(given))
    assert eta == pytest.approx(0.014433756729740645)
    assert gamma == pytest.approx(0.05773502691896258)
    assert scale == 1.0
    eta, gamma, scale = (float(x[0]) for x in DAPOParameters(tuning="practical", step_scale=2).resolve(given))
    assert eta == pytest.approx(2 / np.sqrt(650))
    assert gamma == pytest.approx(4 / np.sqrt(650))
    assert scale == 0.1
    per_run = DAPO(Problem(given.mdp, 100, 2, 50, 5), step_size=[0.1, 0.2])
    np.testing.assert_allclose(per_run.exploration, [0.4, 0.8])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"step_size": 0.0}, "step_size must be finite and positive, got 0.0"),
        ({"step_size": [0.1, -0.1]}, "step_size must be finite and positive, got -0.1"),
        ({"step_size": [0.1, 0.1, 0.1]}, r"step_size must be a number or one number per run \(2\)"),
        ({"step_size": "large"}, "step_size must be a number or one number per run, got 'large'"),
        ({"exploration": -1.0}, "exploration must be finite and at least 0, got -1.0"),
        ({"exploration": float("nan")}, "exploration must be finite"),
        ({"bonus_scale": float("inf")}, "bonus_scale must be finite"),
        ({"tuning": "best"}, "tuning must be 'theory' or 'practical', got 'best'"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        DAPO(problem(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3), n_runs=2), **parameters)


def test_weights_stay_finite_after_many_large_steps():
    """10^4 steps whose exponents would overflow a linear weight at once."""
    given = problem(np.ones((1, 1, 2, 1)), np.ones(1))
    learner = DAPO(given, step_size=50.0, exploration=0.01)
    states = np.zeros((1, 1), dtype=int)
    for k in range(10_000):
        feedback = Feedback(k, states, states, np.ones((1, 1)), learner.act(k), np.ones((1, 1, 1)))
        learner.learn(k, Arrivals((feedback,)))
    assert np.isfinite(learner.log_weights).all()
    assert learner.policy.sum() == pytest.approx(1)


def test_without_exploration_there_is_no_bonus_where_the_acting_policy_never_comes():
    """gamma = 0 at a state that is never reached: 0/0 in the bonus, which is 0."""
    step = np.zeros((2, 3, 2, 3))
    step[..., 0] = 1  # always back to state 0: states 1 and 2 are never reached
    given = TabularMDP(step, [1.0, 0.0, 0.0])
    plain = simulate(Environment(given, np.full((2, 3, 2), 0.3), 1), partial(DAPO, exploration=0.0, bonus=False), 20, 3)
    with_bonus = simulate(Environment(given, np.full((2, 3, 2), 0.3), 1), partial(DAPO, exploration=0.0), 20, 3)
    np.testing.assert_array_equal(with_bonus.expected_loss, plain.expected_loss)
