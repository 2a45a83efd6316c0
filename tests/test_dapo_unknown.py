"""DAPO with unknown transitions: against a slow loop that copies its sets, zero width, counts, properties U1-U5."""

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
from tabpo.learners import DAPO, Feedback, Problem, Trajectory, resolve
from tabpo.learners.protocol import Arrivals
from tests.conftest import random_policy
from tests.enumeration import all_trajectories, probabilities
from tests.reference_unknown import Sets, dapo_term, play

H, S, A, K = 3, 3, 2, 40
ETA, GAMMA, BONUS_SCALE, BIAS_SCALE, WIDTH_SCALE = 0.15, 0.05, 0.3, 0.2, 0.03
IOTA = math.log(10 * H * S * A * K / 0.1)
PARAMETERS = {
    "transitions": "unknown",
    "step_size": ETA,
    "exploration": GAMMA,
    "bonus_scale": BONUS_SCALE,
    "bias_scale": BIAS_SCALE,
    "width_scale": WIDTH_SCALE,
}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(7)
    mdp = TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), np.array([0.5, 0.0, 0.5]))
    return mdp, rng.random((K, H, S, A)), rng.integers(0, 8, K)


def episode_losses(result):
    return np.diff(result.expected_loss[:, -1], prepend=0.0)


def reference(world, counts="immediate", refresh="epoch", run=2, **errors):
    mdp, losses, delays = world
    term = dapo_term(mdp.initial, GAMMA, BONUS_SCALE, BIAS_SCALE, **errors)
    sets = Sets(H, S, A, (4.0, 10.0, IOTA), WIDTH_SCALE, refresh)
    return play(mdp.transitions, mdp.initial, losses, delays, term, sets, ETA, 11, run, counts)[0]


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize(("counts", "refresh"), [("immediate", "epoch"), ("lagged", "episode")])
def test_against_a_loop_that_copies_its_sets(world, backend, counts, refresh):
    """Random delays: the bonus of a late feedback is backed up over the sets of the episode that it comes from."""
    with kernels.using(backend):
        make = partial(DAPO, counts=counts, refresh=refresh, **PARAMETERS)
        result = simulate(Environment(*world), make, K, 3, 11, checkpoints=range(1, K + 1))
    np.testing.assert_allclose(episode_losses(result), reference(world, counts, refresh), rtol=0, atol=1e-12)


@pytest.mark.parametrize("error", [{"sets_of": "arrival"}, {"below": "lower"}, {"width": False}], ids=str)
def test_the_loop_tells_planted_errors(world, error):
    """The arrival's sets for the acting episode's, l for u, or no width in the bonus: none stays within 1e-4."""
    assert np.abs(reference(world, **error) - reference(world)).max() > 1e-4


def test_a_run_is_the_same_alone_and_beside_others(world):
    make = partial(DAPO, **PARAMETERS)
    together = simulate(Environment(*world), make, K, 3, 11)
    alone = simulate(Environment(*world), make, K, 1, 11, runs=[1])
    np.testing.assert_array_equal(together.expected_loss[:, 1], alone.expected_loss[:, 0])
    np.testing.assert_array_equal(together.sampled_loss[:, 1], alone.sampled_loss[:, 0])


def test_counts_differ_only_while_a_trajectory_is_seen_before_its_losses(world):
    mdp, losses, delays = world
    immediate, lagged = (partial(DAPO, counts=counts, **PARAMETERS) for counts in ("immediate", "lagged"))
    for environment in (Environment(mdp, losses, 0), Environment(mdp, losses, delays, trajectories="delayed")):
        one, other = (simulate(environment, make, K, 3, 11) for make in (immediate, lagged))
        np.testing.assert_array_equal(one.expected_loss, other.expected_loss)
    one, other = (simulate(Environment(*world), make, K, 3, 11) for make in (immediate, lagged))
    assert np.abs(one.expected_loss - other.expected_loss).max() > 1e-4


def with_the_true_sets(learner, mdp):
    """Put the true transitions in place of the learner's confidence sets, for good."""
    n_runs = learner.policy.shape[-1]
    row = np.repeat(mdp.transitions[..., None], n_runs, axis=-1)
    learner.model.sets.boxes = Boxes(row, row).packed
    learner.model.observe = lambda arrivals: None
    return learner


@pytest.mark.parametrize("ablation", [{}, {"adapt": False, "dilation": True}, {"bonus": False}], ids=str)
def test_without_width_it_is_the_learner_for_known_transitions(world, ablation):
    mdp, losses, delays = world
    parameters = {"step_size": ETA, "exploration": GAMMA, "bonus_scale": BONUS_SCALE, **ablation}
    environment = Environment(mdp, losses, delays)
    known = simulate(environment, partial(DAPO, **parameters), K, 3, 11)
    twin = simulate(
        environment,
        lambda problem: with_the_true_sets(DAPO(problem, transitions="unknown", **parameters), mdp),
        K,
        3,
        11,
    )
    np.testing.assert_allclose(twin.expected_loss, known.expected_loss, rtol=0, atol=1e-11)


def permutations(rng):
    """Return a model in which every action permutes the states."""
    step = np.zeros((H, S, A, S))
    for h, a in np.ndindex(H, A):
        step[h, np.arange(S), a, rng.permutation(S)] = 1.0
    return TabularMDP(step, np.full(S, 1 / S))


def test_counts_that_tell_the_truth_make_it_the_learner_for_known_transitions(rng):
    """Deterministic transitions, all seen before the first episode, and no width: the sets hold only the truth."""
    mdp = permutations(rng)
    environment = Environment(mdp, rng.random((H, S, A)), 3)
    parameters = {"step_size": ETA, "exploration": GAMMA}

    def taught(problem):
        learner = DAPO(problem, transitions="unknown", width_scale=0.0, **parameters)
        for first, action in np.ndindex(S, A):
            states = [first]
            for h in range(H - 1):
                states.append(int(np.argmax(mdp.transitions[h, states[-1], action])))
            path = np.repeat(np.array(states)[:, None], problem.n_runs, axis=1)
            lesson = Trajectory(0, path, np.full_like(path, action))
            learner.learn(0, Arrivals((), (lesson,)))
        return learner

    known, taught_result = (simulate(environment, make, K, 3, 1) for make in (partial(DAPO, **parameters), taught))
    np.testing.assert_allclose(taught_result.expected_loss, known.expected_loss, rtol=0, atol=1e-11)


def test_settings_tell_what_the_sets_are():
    problem = Problem(TabularMDP(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3)), 100, 2, 50, 5)
    told = DAPO(problem, transitions="unknown", width_scale=[0.1, 1.0], bias_scale=0.5, counts="lagged").settings
    assert told["width_scale"] == [0.1, 1.0]
    assert told["bias_scale"] == 0.5
    assert (told["radius"], told["counts"], told["refresh"]) == ("delayed_uob_reps", "lagged", "epoch")
    assert told["failure_probability"] == 0.1
    assert set(DAPO(problem).settings) == {"step_size", "exploration", "bonus_scale"}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"transitions": "guessed"}, "transitions must be 'known' or 'unknown', got 'guessed'"),
        ({"counts": "late"}, "counts must be 'immediate' or 'lagged', got 'late'"),
        ({"bias_scale": [1.0, 1.0, 1.0]}, r"bias_scale must be a number or one number per run \(2\)"),
        ({"width_scale": 0.0, "exploration": 0.0}, "exploration in the estimator must be finite and positive, got 0"),
        ({"width_scale": 0.0, "implicit_exploration": False}, "exploration in the estimator must be finite and posit"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    problem = Problem(TabularMDP(np.full((2, 3, 2, 3), 1 / 3), np.full(3, 1 / 3)), 100, 2, 50, 5)
    with pytest.raises(InvalidInputError, match=sentence):
        DAPO(problem, **{"transitions": "unknown", **parameters})


def test_skipping_and_doubling_go_around_it(world):
    mdp, losses, delays = world
    make = resolve("dapo", {**PARAMETERS, "skipping": 4, "doubling": True})
    result = simulate(Environment(mdp, losses, delays), make, K, 2, 1)
    assert result.settings["restarts"] > 1
    assert np.isfinite(result.regret).all()


@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
    concentration=st.sampled_from([0.05, 0.3, 1.0]),
    gamma=st.sampled_from([1e-3, 0.1]),
    width=st.sampled_from([0.0, 0.05, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_properties_on_sets_that_hold_the_truth(sizes, concentration, gamma, width, seed):
    """U1-U5 of section 3.3, the means over all trajectories, with the learner's own bounds, bonus and backup."""
    H, S, A = sizes
    rng = np.random.default_rng(seed)
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S))
    centre = rng.dirichlet(np.ones(S), (H, S, A)) * width + transitions * (1 - width)
    radius = np.abs(transitions - centre) * (1 + rng.random(centre.shape) * width) + 1e-15
    losses = rng.random((H, S, A))
    pi, sigma, best = (random_policy(rng, H, S, A, 1, concentration) for _ in range(3))
    learner = DAPO(
        Problem(TabularMDP(transitions, initial), 10, 1, 0, 0), transitions="unknown", step_size=0.1, exploration=gamma
    )
    learner.model.sets.boxes = Boxes.around(centre[..., None], radius[..., None]).packed
    learner.policy = pi
    upper, lower, sets = learner.notes(0)
    learner.policy = sigma

    mu = planning.state_occupancy(transitions, initial, pi)
    slack = 1e-9
    assert (lower <= mu + slack).all()  # U1
    assert (mu <= upper + slack).all()
    states, actions = all_trajectories(initial, H, S, A)
    n = states.shape[1]
    observed = losses[np.arange(H)[:, None], states, actions]
    to_go = np.cumsum(observed[::-1], axis=0)[::-1]
    wide_pi, wide_sigma, wide_upper = (np.repeat(x, n, -1) for x in (pi, sigma, upper))
    visited = kernels.importance_weighted(
        to_go, wide_pi, wide_sigma, wide_upper, states, actions, np.full(n, gamma), True
    )
    estimates = kernels.add_at_trajectory(np.zeros_like(wide_pi), states, actions, visited)
    weights = probabilities(transitions, initial, wide_pi, states, actions)
    mean, second = (estimates @ weights)[..., None], (estimates**2 @ weights)[..., None]
    q, _ = planning.evaluate(transitions, losses, pi)
    below = upper[:, :, None] * pi + gamma
    share = np.minimum(pi, sigma) / np.maximum(sigma, 1e-300)  # r, where sigma > 0
    stated = share * mu[:, :, None] * pi / below * q
    np.testing.assert_allclose((sigma * mean), (sigma * stated), rtol=1e-9, atol=1e-12)
    assert (mean <= q + slack).all()

    feedback = Feedback(0, states[:, :1], actions[:, :1], observed[:, :1], pi, mu)
    bonus = learner.bonus(feedback, upper, lower)
    exploring = 3 * gamma * H * (np.minimum(pi, sigma) / below).sum(2)
    widening = H * (np.minimum(pi, sigma) * pi * (upper - lower)[:, :, None] / below).sum(2)
    np.testing.assert_allclose(bonus, exploring + widening, rtol=1e-12)
    moved = np.abs(sigma - pi).sum(2) / 2
    assert ((sigma * (q - mean)).sum(2) <= H * moved + exploring / 3 + widening + slack).all()  # U2
    assert ((sigma * second).sum(2) <= H * exploring / (3 * gamma) * (1 + slack) + slack).all()  # P4 with u for mu
    bonus_q, values = learner.model.bonus_values(bonus[:, :, None, :], pi, 0.0, sets)
    assert (bonus <= 4 * H + slack).all()  # U3
    assert (bonus_q <= 4 * H * (H - np.arange(H)[:, None, None, None]) + slack).all()
    best_mu = planning.state_occupancy(transitions, initial, best)
    paid = float((best_mu[:, :, None] * (pi - best) * bonus_q).sum())
    start = float(initial @ values[0, :, 0])
    assert paid <= start - float((best_mu * bonus).sum()) + slack  # U4
    assert start <= float((upper * bonus).sum()) + slack
    assert (upper * bonus <= 3 * gamma * H * A + H * (upper - lower) + slack).all()  # U5
