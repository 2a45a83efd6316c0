"""UOB-REPS and UOB-FTRL: their estimators and steps written out, sets, epochs, delays, and runs on their own."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, confidence, planning, simulate
from tabpo.learners import OREPS, Feedback, Problem, Trajectory
from tabpo.learners.occupancy_leaders import RegularisedLeader
from tabpo.learners.occupancy_projections import SetProjection
from tabpo.learners.protocol import Arrivals
from tabpo.learners.uob_ftrl import UOBFTRL
from tabpo.learners.uob_reps import UOBREPS
from tests.conftest import random_policy
from tests.test_learners_o_reps import flow_residual, model

H, S, A = 3, 3, 2


def problem_of(n_runs=1, n_episodes=50, total_delay=0, seed=4):
    transitions, initial, rng = model(seed, H, S, A)
    return Problem(TabularMDP(transitions, initial), n_episodes, n_runs, total_delay, 0), rng


def feedback(rng, episode, policy, upper):
    """Return the feedback of a random path in each run; the occupancy is for no learner here to read."""
    R = policy.shape[-1]
    states, actions = rng.integers(S, size=(H, R)), rng.integers(A, size=(H, R))
    return Feedback(episode, states, actions, rng.random((H, R)), policy, np.full((H, S, R), np.nan), upper)


def trajectory(j):
    return Trajectory(j.episode, j.states, j.actions)


def play(learner, problem, rng, n_episodes, then=lambda k, learner: None):
    """Play without delays, calling ``then`` after every episode."""
    transitions, initial = problem.mdp.transitions, problem.mdp.initial
    runs = np.arange(problem.n_runs)
    for k in range(n_episodes):
        policy, notes = learner.act(k), learner.notes(k)
        states, actions = np.zeros((2, H, problem.n_runs), dtype=np.int64)
        for r in runs:
            s = rng.choice(S, p=initial)
            for h in range(H):
                a = rng.choice(A, p=policy[h, s, :, r])
                states[h, r], actions[h, r] = s, a
                s = rng.choice(S, p=transitions[h, s, a])
        losses = rng.random((H, problem.n_runs))
        j = Feedback(k, states, actions, losses, policy, np.full((H, S, problem.n_runs), np.nan), notes)
        learner.learn(k, Arrivals((j,), (trajectory(j),)))
        then(k, learner)


# --- UOB-REPS ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapt", [True, False])
def test_a_step_of_uob_reps(adapt):
    """Two arrivals with notes of their own, two runs: the programme gets ``chat`` as the paper has it."""
    problem, rng = problem_of(n_runs=2)
    eta, gamma = 0.7, 0.05
    learner = UOBREPS(problem, step_size=eta, exploration=gamma, adapt=adapt)
    now, upper_now = learner.act(5), learner.notes(5)
    arrivals, estimate = [], np.zeros((H, S, A, 2))
    for episode in range(2):
        j = feedback(rng, episode, random_policy(rng, H, S, A, 2), rng.random((H, S, 2)))
        arrivals.append(j)
        for h in range(H):
            for r in range(2):
                s, a = j.states[h, r], j.actions[h, r]
                reach = j.notes[h, s, r] * j.policy[h, s, a, r]
                if adapt:
                    reach = max(reach, upper_now[h, s, r] * now[h, s, a, r])
                estimate[h, s, a, r] += j.losses[h, r] / (reach + gamma)
    before, of_next = learner.log_occupancy.copy(), learner.log_transitions.copy()
    learner.learn(5, Arrivals(tuple(arrivals)))  # no trajectory becomes known: the set is the first one, of everything
    everything = np.zeros((H - 1, S, A, S)), np.ones((H - 1, S, A, S))
    for r in range(2):
        step = SetProjection(problem.mdp.initial, *everything)(before[r] - eta * estimate[..., r], of_next[r])
        np.testing.assert_allclose(learner.log_occupancy[r], step[0], atol=1e-12)
        q = np.exp(step[0])
        np.testing.assert_allclose(learner.act(6)[..., r], q / q.sum(2, keepdims=True), atol=1e-12)


def test_uob_reps_begins_with_the_uniform_policy_and_measure():
    problem, _ = problem_of()
    learner = UOBREPS(problem)
    np.testing.assert_allclose(learner.act(0), 1 / A, atol=1e-14)
    q = np.exp(learner.log_occupancy[0])
    np.testing.assert_allclose(q[0], np.repeat(problem.mdp.initial[:, None] / A, A, 1), atol=1e-15)
    np.testing.assert_allclose(q[1:], 1 / (S * A), atol=1e-15)
    assert flow_residual(np.full((H, S, A, S), 1 / S), problem.mdp.initial, q) < 1e-14


def test_step_size_is_the_papers_in_its_own_symbols():
    """Layered: |X| = H S states, T = K, ``eta = gamma = sqrt(L ln(L |X| |A| / delta) / (T |X| |A|))``."""
    problem, _ = problem_of(n_episodes=400)
    learner = UOBREPS(problem, failure_probability=0.05)
    n_states = H * S
    expected = np.sqrt(H * np.log(H * n_states * A / 0.05) / (400 * n_states * A))
    assert learner.step_size[0] == learner.exploration[0] == pytest.approx(expected, rel=1e-12)
    delayed, _ = problem_of(n_episodes=400, total_delay=10_000)
    assert UOBREPS(delayed).step_size[0] < UOBREPS(problem).step_size[0]


@pytest.mark.parametrize("refresh", ["epoch", "episode"])
def test_iterates_of_uob_reps_stay_in_the_sets(refresh):
    """Flow and bounds after every episode; upper occupancies are at least the true ones."""
    problem, rng = problem_of(n_runs=2)
    learner = UOBREPS(problem, step_size=0.3, refresh=refresh, width_scale=[1.0, 0.2])
    transitions, initial = problem.mdp.transitions, problem.mdp.initial

    def check(k, learner):
        low, high = learner.model.sets.bounds()
        for r in range(2):
            p = np.exp(learner.log_transitions[r])
            assert np.all(p >= low[:-1, ..., r] - 1e-12)
            assert np.all(p <= high[:-1, ..., r] + 1e-12)
            padded = np.concatenate([p, np.ones((1, S, A, S))])
            q = np.exp(learner.log_occupancy[r])
            assert flow_residual(padded, initial, q) < 1e-9
            np.testing.assert_allclose(planning.occupancy(padded, initial, learner.act(k)[..., r]), q, atol=1e-9)
        upper = learner.notes(k)[..., 0]
        assert np.all(upper >= planning.state_occupancy(transitions, initial, learner.act(k)[..., 0]) - 1e-12)

    play(learner, problem, rng, 30, check)
    assert (learner.model.sets.counts.n_epochs > 2).all()


def test_uob_reps_with_sets_of_one_model_is_o_reps():
    """From the measure of O-REPS and with the true occupancy for u: the same policies, step after step."""
    problem, rng = problem_of(n_runs=2)
    transitions, initial = problem.mdp.transitions, problem.mdp.initial
    given = {"step_size": 0.4, "exploration": 0.1}
    known, learner = OREPS(problem, **given), UOBREPS(problem, **given)
    learner.log_occupancy = np.moveaxis(known.log_occupancy, -1, 0).copy()
    learner.log_transitions = np.repeat(np.log(transitions[:-1])[None], 2, 0)
    learner.policy = known.act(0)
    learner.projections = dict.fromkeys(range(2), SetProjection(initial, transitions[:-1], transitions[:-1]))
    for k in range(15):
        policy = random_policy(rng, H, S, A, 2)
        mu = planning.state_occupancy(transitions, initial, policy)
        j = feedback(rng, k, policy, mu)
        learner.upper = planning.state_occupancy(transitions, initial, learner.act(k))
        learner.learn(k, Arrivals((j,)))
        known.learn(k, Arrivals((Feedback(k, j.states, j.actions, j.losses, policy, mu),)))
        np.testing.assert_allclose(learner.act(k), known.act(k), atol=1e-7)


def test_adaptation_changes_nothing_without_delays():
    mdp = problem_of()[0].mdp
    with_losses = TabularMDP(mdp.transitions, mdp.initial, np.random.default_rng(1).random((H, S, A)))
    kept = {}
    for delays in (0, 7):
        environment = Environment(with_losses, delays=delays)
        kept[delays] = [
            simulate(environment, partial(UOBREPS, adapt=adapt, step_size=0.1), 40, 2).expected_loss
            for adapt in (True, False)
        ]
    np.testing.assert_array_equal(*kept[0])
    assert (kept[7][0][-1] != kept[7][1][-1]).all()


# --- UOB-FTRL ---------------------------------------------------------------------------------------------------------


def test_uob_ftrl_follows_its_definition():
    """Losses summed since the epoch began, written out from what was observed; the empirical model; the bonus."""
    problem, rng = problem_of(n_runs=2)
    beta, scale = 3.0, 0.3
    learner = UOBFTRL(problem, barrier_weight=beta, width_scale=scale)
    initial = problem.mdp.initial
    log_term = np.log(H * S * A * problem.n_episodes / problem.n_episodes**-3.0)
    seen, since = [], [0, 0]
    act, learn = learner.act, learner.learn

    def check(k, _):
        for r in range(2):
            counts = np.zeros((H, S, A, S))
            visits = np.zeros((H, S, A), dtype=np.int64)
            for j in seen[: since[r]]:
                for h in range(H):
                    s, a = j.states[h, r], j.actions[h, r]
                    visits[h, s, a] += 1
                    if h + 1 < H:
                        counts[h, s, a, j.states[h + 1, r]] += 1
            centre = np.where(visits[..., None] > 0, counts / np.maximum(visits, 1)[..., None], 1 / S)
            centre[-1] = 1 / S
            bonus = H * np.minimum(confidence.uob_ftrl_radius(centre, visits, log_term, scale).sum(-1), 1)
            losses = np.zeros((H, S, A))
            for j in seen[since[r] :]:
                for h in range(H):
                    s, a = j.states[h, r], j.actions[h, r]
                    losses[h, s, a] += j.losses[h, r] / (j.notes[h, s, r] * j.policy[h, s, a, r])
                losses[:-1] -= bonus[:-1]
            root_weight = np.sqrt(k + 1 - since[r] + 1.0)
            q, _ = RegularisedLeader(centre, initial)(losses, root_weight, beta, np.zeros((H, S)))
            policy = np.where(q.sum(2, keepdims=True) > 0, q / np.maximum(q.sum(2, keepdims=True), 1e-300), 1 / A)
            np.testing.assert_allclose(act(k + 1)[..., r], policy, atol=1e-7)

    def remember(k, arrivals):
        epochs = learner.model.sets.counts.n_epochs.copy()
        seen.extend(arrivals)
        learn(k, arrivals)
        for r in np.flatnonzero(learner.model.sets.counts.n_epochs > epochs):
            since[r] = k + 1

    learner.learn = remember
    play(learner, problem, rng, 40, check)
    assert 0 < since[0] < 40


def test_known_transitions_have_no_bonus_and_no_restart():
    problem, rng = problem_of(n_runs=2)
    learner = UOBFTRL(problem, transitions="known", barrier_weight=2.0)
    transitions, initial = problem.mdp.transitions, problem.mdp.initial
    losses = np.zeros((H, S, A, 2))
    for k in range(6):
        policy, upper = learner.act(k), learner.notes(k)
        np.testing.assert_allclose(upper, planning.state_occupancy(transitions, initial, policy), atol=1e-14)
        for r in range(2):
            q, _ = RegularisedLeader(transitions, initial)(losses[..., r], np.sqrt(k + 1.0), 2.0, np.zeros((H, S)))
            np.testing.assert_allclose(policy[..., r], q / q.sum(2, keepdims=True), atol=1e-7)
        j = feedback(rng, k, policy, upper)
        for h in range(H):
            for r in range(2):
                s, a = j.states[h, r], j.actions[h, r]
                losses[h, s, a, r] += j.losses[h, r] / (upper[h, s, r] * policy[h, s, a, r])
        learner.learn(k, Arrivals((j,), (trajectory(j),)))
    assert learner.settings["transitions"] == "known"


def test_barrier_weights_of_the_papers():
    problem, _ = problem_of()
    assert UOBFTRL(problem).barrier_weight[0] == 128 * H**4
    assert UOBFTRL(problem, transitions="known").barrier_weight[0] == 64 * H


# --- Both -------------------------------------------------------------------------------------------------------------

LEARNERS = {
    "uob_reps": partial(UOBREPS, step_size=0.2, width_scale=0.3),
    "uob_reps_lagged": partial(UOBREPS, counts="lagged", refresh="episode"),
    "uob_ftrl": partial(UOBFTRL, barrier_weight=1.0, width_scale=0.3, bias_scale=0.1),
    "uob_ftrl_known": partial(UOBFTRL, transitions="known"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_does_not_depend_on_the_runs_beside_it(name):
    sizes = (2, 9, 9)  # NumPy sums eight numbers and more in another order than few
    transitions, initial, rng = model(2, *sizes, point_start=True)
    environment = Environment(TabularMDP(transitions, initial, rng.random(sizes)), delays=3, trajectories="delayed")
    together = simulate(environment, LEARNERS[name], 20, 3, seed=5, checkpoints=20)
    alone = simulate(environment, LEARNERS[name], 20, 1, seed=5, runs=[1], checkpoints=20)
    np.testing.assert_array_equal(together.expected_loss[:, 1], alone.expected_loss[:, 0])
    np.testing.assert_array_equal(together.sampled_loss[:, 1], alone.sampled_loss[:, 0])


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_the_better_action(name):
    """One state, two actions of losses 0 and 1: 300 episodes cost 300 for the worse one."""
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1), np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    regret = simulate(Environment(mdp, delays=10), LEARNERS[name], 300, 2, checkpoints=[150, 300]).regret.mean(axis=1)
    assert regret[-1] < 240
    assert regret[-1] - regret[0] < 0.9 * regret[0]


@pytest.mark.parametrize("learner", [UOBREPS, UOBFTRL])
def test_what_cannot_be_used_is_said(learner):
    import array_api_strict

    problem, _ = problem_of()
    with pytest.raises(InvalidInputError, match="width_scale must be positive"):
        learner(problem, width_scale=0.0)
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1))
    with pytest.raises(InvalidInputError, match="simulate it with NumPy arrays"):
        learner(Problem(mdp, 10, 1, 0, 0, xp=array_api_strict))
