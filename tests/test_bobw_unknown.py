"""Best-of-both-worlds policy optimization without the transitions: a slow loop, and the known twin without width."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, TabularMDP, kernels, simulate
from tabpo.errors import InvalidInputError
from tabpo.kernels import Boxes
from tabpo.learners import TsallisPO
from tabpo.learners.protocol import Arrivals, Trajectory
from tests.bobw_pieces import EVERY, problem, random_model, recorded, reference_rates
from tests.reference_bobw import play
from tests.reference_unknown import Sets

H, S, A, K = 3, 3, 2, 30
RUN, WIDTH_SCALE, BIAS_SCALE = 2, 0.03, 0.2
PARAMETERS = {
    "transitions": "unknown",
    "tuning": "practical",
    "exploration": 1,
    "width_scale": WIDTH_SCALE,
    "bias_scale": BIAS_SCALE,
}
every_learner = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(8)
    return random_model(rng, H, S, A, np.array([0.4, 0.0, 0.6])), rng.random((K, H, S, A)), rng.integers(0, 7, K)


def reference(world, name, width_scale=WIDTH_SCALE, refresh="epoch", counts="immediate"):
    """Return the slow loop's run; delta is 1/K^3, so that iota is ln(H S A K^4)."""
    mdp, losses, delays = world
    sets = Sets(H, S, A, (2.0, 14 / 3, math.log(H * S * A * K**4)), width_scale, refresh)
    rates = reference_rates(name, (H, S, A), K, "practical", 1)
    return play(mdp, losses, delays, rates, 1, 11, RUN, sets=sets, bias_scale=BIAS_SCALE, counts=counts)


def learned(world, name, **others):
    mdp, losses, delays = world
    return recorded(Environment(mdp, losses, delays), partial(EVERY[name], **{**PARAMETERS, **others}), K)


@every_learner
@pytest.mark.parametrize("sets", [{}, {"counts": "lagged", "refresh": "episode"}, {"width_scale": 1.0}], ids=str)
def test_against_a_loop_that_copies_its_sets(world, name, sets):
    """Random delays: bounds are of the sets that an episode was played with, and so is the value of its bonus."""
    _, built, policies = learned(world, name, **sets)
    expected = reference(world, name, **sets)
    np.testing.assert_allclose(policies[..., RUN], expected.policies, rtol=0, atol=1e-10)
    np.testing.assert_allclose(built.largest_condition[RUN], expected.largest, rtol=1e-9)


def test_plain_kernels(world):
    with kernels.using("numpy"):
        _, _, policies = learned(world, "tsallis")
    np.testing.assert_allclose(policies[..., RUN], reference(world, "tsallis").policies, rtol=0, atol=1e-10)


def the_acting_sets_forgotten(learner):
    learner.model.snapshot = lambda: None


def the_true_occupancy(learner):
    take_in = learner.learn

    def learn(k, arrivals):
        for j in arrivals:
            j.notes.denominator[...] = j.state_occupancy
        take_in(k, arrivals)

    learner.learn = learn


def rates_begun_again_at_epochs(learner):
    take_in, epochs = learner.learn, []

    def learn(k, arrivals):
        take_in(k, arrivals)
        epochs.append(learner.model.sets.counts.n_epochs[RUN])
        if len(set(epochs[-2:])) == 2:
            learner.rates.weight_sum = np.zeros_like(learner.rates.weight_sum)

    learner.learn = learn


@pytest.mark.parametrize(
    "error", [the_acting_sets_forgotten, the_true_occupancy, rates_begun_again_at_epochs], ids=lambda f: f.__name__
)
def test_the_loop_tells_planted_errors(world, error):
    """What agrees within 1e-10 above is off by more than 1e-4."""

    def make(problem):
        built = TsallisPO(problem, **PARAMETERS)
        error(built)
        return built

    mdp, losses, delays = world
    _, _, policies = recorded(Environment(mdp, losses, delays), make, K)
    assert np.abs(policies[..., RUN] - reference(world, "tsallis").policies).max() > 1e-4


def with_the_true_sets(learner, mdp):
    """Put the true transitions in place of the learner's confidence sets, for good."""
    row = np.repeat(mdp.transitions[..., None], learner.policy.shape[-1], axis=-1)
    learner.model.sets.boxes = Boxes(row, row).packed
    learner.model.observe = lambda arrivals: None
    return learner


@every_learner
@pytest.mark.parametrize("tuning", ["practical", "theory"])
def test_without_width_it_is_the_learner_for_known_transitions(world, name, tuning):
    mdp, losses, delays = world
    parameters = {"tuning": tuning, "exploration": 1, "initial_rate": 2.0}
    if name == "log_barrier":
        parameters["virtual_episodes"] = False
    make = partial(EVERY[name], **parameters)
    _, built, known = recorded(Environment(mdp, losses, delays), make, K)
    _, other, twin = recorded(
        Environment(mdp, losses, delays), lambda p: with_the_true_sets(make(p, transitions="unknown"), mdp), K
    )
    np.testing.assert_allclose(twin, known, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.largest_condition, built.largest_condition, rtol=1e-9)
    assert np.abs(known - 1 / A).max() > 0.01


def permutations(rng):
    """Return a model in which every action permutes the states."""
    step = np.zeros((H, S, A, S))
    for h, a in np.ndindex(H, A):
        step[h, np.arange(S), a, rng.permutation(S)] = 1.0
    return TabularMDP(step, np.full(S, 1 / S))


@every_learner
def test_counts_that_tell_the_truth_make_it_the_learner_for_known_transitions(name, rng):
    """Deterministic transitions, all seen before the first episode, and no width: the sets hold only the truth."""
    mdp = permutations(rng)
    environment = Environment(mdp, rng.random((H, S, A)), 3)

    def taught(problem):
        learner = EVERY[name](problem, transitions="unknown", width_scale=0.0, tuning="practical", exploration=0.5)
        for first, action in np.ndindex(S, A):
            states = [first]
            for h in range(H - 1):
                states.append(int(np.argmax(mdp.transitions[h, states[-1], action])))
            path = np.repeat(np.array(states)[:, None], problem.n_runs, axis=1)
            learner.learn(0, Arrivals((), (Trajectory(0, path, np.full_like(path, action)),)))
        return learner

    known = partial(EVERY[name], tuning="practical", exploration=0.5)
    results = [simulate(environment, make, K, 3, 1) for make in (known, taught)]
    np.testing.assert_allclose(results[1].expected_loss, results[0].expected_loss, rtol=0, atol=1e-10)


@every_learner
def test_virtual_episodes_and_doubling_do_without_the_transitions(world, name):
    """A few episodes of the theory: log-barrier's rates are raised by virtual episodes over the sets in force."""
    mdp, losses, delays = world
    given = {"initial_rate": 600.0} if name == "log_barrier" else {}
    make = partial(EVERY[name], transitions="unknown", exploration=1, **given)
    result, built, _ = recorded(Environment(mdp, losses[:8], delays[:8]), make, 8)
    assert np.isfinite(result.regret).all()
    assert name != "log_barrier" or (built.rates.n_virtual > 0).all()


@every_learner
def test_without_width_there_must_be_exploration(name, rng):
    """An empirical model may give probability 0 to where the trajectory goes."""
    make = partial(EVERY[name], problem(random_model(rng, H, S, A), n_runs=2), transitions="unknown", exploration=0)
    make(width_scale=0.1)
    for width in (0.0, [0.1, 0.0]):
        with pytest.raises(InvalidInputError, match="exploration must be finite and positive, got 0"):
            make(width_scale=width)


def test_settings_tell_what_the_sets_are(rng):
    told = TsallisPO(problem(random_model(rng, H, S, A), 10), transitions="unknown", width_scale=0.2).settings
    assert (told["transitions"], told["radius"], told["width_scale"]) == ("unknown", "uob_ftrl", 0.2)
    assert told["failure_probability"] == pytest.approx(1e-3)
