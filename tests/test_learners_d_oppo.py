"""D-OPPO: its step written out in NumPy, its estimator's mean by enumeration, and a slow loop with sets of its own."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, TabularMDP, kernels, planning, simulate
from tabpo.environments import ArrayLosses
from tabpo.errors import InvalidInputError
from tabpo.learners import DOPPO, Feedback, Problem
from tabpo.learners.d_oppo import DOPPOParameters
from tabpo.learners.protocol import Arrivals
from tests.conftest import random_policy
from tests.enumeration import all_trajectories, probabilities
from tests.reference_unknown import Sets, d_oppo_term, play

H = S = A = 2
ETA, GAMMA = 0.6, 0.05


@pytest.fixture
def model(rng):
    return TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), np.array([0.3, 0.7]))


def q_of_estimate(model, acting, states, actions, losses):
    """Return ``chat + p <pi, Q>`` written out for H = S = A = 2 and one run."""
    p, reach = model.transitions, model.initial
    q = np.zeros((2, 2, 2))
    reach_1 = [sum(reach[s] * acting[0, s, a] * p[0, s, a, t] for s in (0, 1) for a in (0, 1)) for t in (0, 1)]
    s, a = states[1], actions[1]
    q[1, s, a] = losses[1] / (reach_1[s] * acting[1, s, a] + GAMMA)
    values = [acting[1, s, 0] * q[1, s, 0] + acting[1, s, 1] * q[1, s, 1] for s in (0, 1)]
    for s in (0, 1):
        for a in (0, 1):
            q[0, s, a] = p[0, s, a, 0] * values[0] + p[0, s, a, 1] * values[1]
    s, a = states[0], actions[0]
    q[0, s, a] += losses[0] / (reach[s] * acting[0, s, a] + GAMMA)
    return q


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_two_batches_against_the_formula(backend, model, rng):
    """Three runs; two arrivals at the end of episode 4 and one of episode 5, each played by another policy."""
    n_runs = 3
    with kernels.using(backend):
        learner = DOPPO(Problem(model, 10, n_runs, 0, 0), step_size=ETA, exploration=GAMMA)
        feedback = []
        for episode in range(3):
            acting = random_policy(rng, H, S, A, n_runs)
            mu = planning.state_occupancy(model.transitions, model.initial, acting)
            states, actions = rng.integers(S, size=(H, n_runs)), rng.integers(A, size=(H, n_runs))
            feedback.append(Feedback(episode, states, actions, rng.random((H, n_runs)), acting, mu))
        learner.learn(4, Arrivals((feedback[0], feedback[1])))
        after_two = learner.act(5).copy()
        learner.learn(5, Arrivals((feedback[2],)))
        learner.learn(6, Arrivals())
        after_three = learner.act(7)
    for r in range(n_runs):
        total = np.zeros((H, S, A))
        for count, j in enumerate(feedback, start=1):
            total += q_of_estimate(model, j.policy[..., r], j.states[:, r], j.actions[:, r], j.losses[:, r])
            if count >= 2:
                weights = np.exp(-ETA * total)
                got = after_two if count == 2 else after_three
                np.testing.assert_allclose(got[..., r], weights / weights.sum(2, keepdims=True), atol=1e-12)


def test_estimator_mean_by_enumeration(model, rng):
    """The last step's gradient is the loss estimator; its mean over all trajectories is ``m / (m + gamma) c``."""
    states, actions = all_trajectories(model.initial, H, S, A)
    n = states.shape[1]
    acting = np.repeat(random_policy(rng, H, S, A, 1), n, -1)
    mu, losses = planning.state_occupancy(model.transitions, model.initial, acting), rng.random((H, S, A))
    learner = DOPPO(Problem(model, 10, n, 0, 0), step_size=1.0, exploration=GAMMA)
    observed = losses[np.arange(H)[:, None], states, actions]
    learner.learn(0, Arrivals((Feedback(0, states, actions, observed, acting, mu),)))
    log_policy = np.log(learner.policy)
    weights = probabilities(model.transitions, model.initial, acting, states, actions)
    m = (mu[:, :, None] * acting)[..., 0]
    stated = m / (m + GAMMA) * losses
    # The policy determines the gradient up to a constant per state: differences between the two actions.
    step = log_policy[:, :, 0] - log_policy[:, :, 1]
    np.testing.assert_allclose((-step @ weights)[1], stated[1, :, 0] - stated[1, :, 1], atol=1e-12)
    # One step earlier the mean passes through the model: Q of the mean losses.
    q, _ = planning.evaluate(model.transitions, stated, acting[..., 0])
    np.testing.assert_allclose(-step @ weights, q[:, :, 0] - q[:, :, 1], atol=1e-12)


def test_parameters_follow_the_specification():
    """Section 8a at H, S, A = 2, 3, 4, K = 10, D = 5: eta = 1 / (2 (8*10 + 4*5)^(2/3)), gamma = 2 eta A H."""
    given = Problem(TabularMDP(np.full((2, 3, 4, 3), 1 / 3), np.full(3, 1 / 3)), 10, 1, 5, 5)
    step_size, exploration = DOPPOParameters().resolve(given)
    assert step_size[0] == pytest.approx(0.5 / 100 ** (2 / 3))
    assert exploration[0] == pytest.approx(8 / 100 ** (2 / 3))
    assert DOPPOParameters(step_scale=3.0).resolve(given)[0][0] == pytest.approx(1.5 / 100 ** (2 / 3))
    assert DOPPOParameters(step_size=0.25).resolve(given)[1][0] == pytest.approx(4.0)
    # Full information: sqrt(ln 4 / 15) / 2
    assert DOPPOParameters(feedback="full").resolve(given)[0][0] == pytest.approx(0.5 * math.sqrt(math.log(4) / 15))


def test_learns_the_better_action_also_from_coin_flips():
    """Two actions of mean 0.2 and 0.8 at each step: uniform play costs 0.6 an episode, 240 in 400."""
    mdp = TabularMDP(np.ones((2, 1, 2, 1)), np.ones(1))
    losses = ArrayLosses(np.array([[[0.2, 0.8]], [[0.8, 0.2]]]), "bernoulli")
    result = simulate(Environment(mdp, losses, 10), partial(DOPPO, step_size=0.05), 400, 8, checkpoints=[400])
    assert result.regret.max() < 120


@pytest.fixture(scope="module")
def world():
    """Three steps, three states, two actions, 30 episodes with random delays."""
    rng = np.random.default_rng(3)
    mdp = TabularMDP(rng.dirichlet(np.ones(3), (3, 3, 2)), np.array([0.5, 0.5, 0.0]))
    return mdp, rng.random((30, 3, 3, 2)), rng.integers(0, 8, 30)


UNKNOWN = {"transitions": "unknown", "width_scale": 0.03, "step_size": 0.2, "exploration": GAMMA}


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize(("feedback", "counts"), [("bandit", "immediate"), ("bandit", "lagged"), ("full", "immediate")])
def test_unknown_transitions_against_a_slow_loop(world, backend, feedback, counts):
    mdp, losses, delays = world
    iota = math.log(10 * 3 * 3 * 2 * 30 / 0.1)
    term = d_oppo_term(mdp.initial, GAMMA, feedback == "full")
    sets = Sets(3, 3, 2, (4.0, 10.0, iota), 0.03, "epoch")
    expected, _ = play(mdp.transitions, mdp.initial, losses, delays, term, sets, 0.2, 5, 1, counts)
    with kernels.using(backend):
        make = partial(DOPPO, feedback=feedback, counts=counts, **UNKNOWN)
        result = simulate(Environment(*world), make, 30, 2, 5, checkpoints=range(1, 31))
        alone = simulate(Environment(*world), make, 30, 1, 5, runs=[1])
    got = np.diff(result.expected_loss[:, 1], prepend=0.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
    if backend == "numba":
        np.testing.assert_array_equal(alone.expected_loss[-1], result.expected_loss[-1, 1:])


def test_full_information_follows_the_action_values_of_the_true_losses(world):
    """Two late episodes: the weights are exp(-eta (Q^0 + Q^1)), each under the policy that played."""
    mdp, losses, _ = world
    result_policy = []

    class Recording(DOPPO):
        def act(self, k):
            result_policy.append(super().act(k))
            return result_policy[-1]

    environment = Environment(mdp, losses[:4], [2, 1, 9, 9])
    simulate(environment, partial(Recording, step_size=0.3, feedback="full"), 4, 2)
    uniform = planning.uniform_policy(3, 3, 2)
    q = sum(planning.evaluate(mdp.transitions, losses[k], uniform)[0] for k in (0, 1))
    weights = np.exp(-0.3 * q)
    expected = weights / weights.sum(2, keepdims=True)
    np.testing.assert_allclose(result_policy[3], np.repeat(expected[..., None], 2, -1), atol=1e-13)


@pytest.mark.parametrize("feedback", ["bandit", "full"])
def test_without_width_it_is_the_learner_for_known_transitions(world, feedback):
    mdp, _, _ = world
    parameters = {"step_size": 0.2, "exploration": GAMMA, "feedback": feedback}

    def with_the_true_sets(problem):
        learner = DOPPO(problem, transitions="unknown", **parameters)
        row = np.repeat(mdp.transitions[..., None], problem.n_runs, axis=-1)
        learner.model.sets.boxes = kernels.Boxes(row, row).packed
        learner.model.observe = lambda arrivals: None
        return learner

    makes = (partial(DOPPO, **parameters), with_the_true_sets)
    known, twin = (simulate(Environment(*world), make, 30, 3, 5) for make in makes)
    np.testing.assert_allclose(twin.expected_loss, known.expected_loss, rtol=0, atol=1e-11)


def test_the_optimist_thinks_no_worse_than_the_truth(world):
    """With the truth in the set, the values of the losses are at most the true ones: each weight only grows."""
    mdp, losses, _ = world
    problem = Problem(mdp, 30, 1, 0, 0)
    known, unknown = (DOPPO(problem, feedback="full", transitions=t, step_size=1.0) for t in ("known", "unknown"))
    policy = known.act(0)
    q, _ = known.model.bonus_values(-losses[0][..., None], policy)
    optimistic, _ = unknown.model.bonus_values(-losses[0][..., None], policy)
    assert (optimistic >= q - 1e-12).all()
    assert (optimistic - q).max() > 0.1  # nothing was seen yet: the sets are wide


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"feedback": "some"}, "feedback must be 'bandit' or 'full', got 'some'"),
        ({"transitions": "guessed"}, "transitions must be 'known' or 'unknown', got 'guessed'"),
        (
            {"transitions": "unknown", "width_scale": 0.0, "exploration": 0.0},
            "exploration must be finite and positive, got 0",
        ),
    ],
)
def test_bad_parameters_get_a_sentence(model, parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        DOPPO(Problem(model, 10, 1, 0, 0), **parameters)
