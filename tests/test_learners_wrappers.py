"""Skipping and doubling, rule by rule, around a learner that writes down what it is told."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabpo import Environment, InvalidInputError, TabularMDP, simulate
from tabpo.learners import DAPO, Doubling, Skipping, resolve

MDP = TabularMDP(np.full((2, 2, 2, 2), 0.5), np.full(2, 0.5))


class Recorder:
    """Plays uniformly; one per restart, kept in a list."""

    def __init__(self, problem, made):
        self.problem, self.acted, self.learned = problem, [], []
        made.append(self)

    def act(self, k):
        self.acted.append(k)
        return np.full((2, 2, 2, self.problem.n_runs), 0.5)

    def learn(self, k, arrivals):
        self.learned.append((k, [j.episode for j in arrivals], [t.episode for t in arrivals.trajectories], arrivals))


def play(wrapper, delays, trajectories="immediate", **options):
    """Return (the wrapper, the recorders inside, the result)."""
    made, wrappers = [], []

    def make(problem):
        wrappers.append(wrapper(problem, partial(Recorder, made=made), **options))
        return wrappers[0]

    environment = Environment(MDP, np.full((2, 2, 2), 0.5), np.array(delays), trajectories)
    result = simulate(environment, make, len(delays), 2, 0)
    return wrappers[0], made, result


DELAYS = st.lists(st.integers(0, 30), min_size=1, max_size=70)


@given(delays=DELAYS, threshold=st.none() | st.integers(0, 20))
@settings(max_examples=50, deadline=None)
def test_skipping_drops_exactly_what_was_longer_under_way(delays, threshold):
    K, capped = len(delays), [min(d, len(delays)) for d in delays]
    wrapper, (inside,), result = play(Skipping, delays, threshold=threshold)
    beta = math.ceil(math.sqrt(sum(capped))) if threshold is None else threshold
    beta = max(beta, 1) if threshold is None else beta
    assert wrapper.threshold == result.settings["skipping_threshold"] == beta
    for k, arrived, seen, _ in inside.learned:
        assert arrived == [j for j in range(K) if j + delays[j] == k and delays[j] <= beta]
        assert seen == [k]  # trajectories are not skipped: they did not come late
    late = [j for j in range(K) if j + delays[j] < K and delays[j] > beta]
    assert wrapper.skipped == result.settings["skipped"] == len(late)
    if beta:
        assert len(late) <= sum(capped) / beta
    assert inside.problem.max_delay == min(max(capped), beta)


def test_skipping_by_the_learners_it_goes_around():
    """A threshold at the largest delay changes nothing; below the least, everything is skipped."""
    environment = Environment(MDP, np.array([[[0.1, 0.9]] * 2] * 2), [3, 5] * 20)
    plain = simulate(environment, partial(DAPO, step_size=0.1), 40, 3)
    wide = simulate(environment, resolve("dapo", {"step_size": 0.1, "skipping": 5}), 40, 3)
    np.testing.assert_array_equal(plain.regret, wide.regret)
    narrow = simulate(environment, resolve("dapo", {"step_size": 0.1, "skipping": 2}), 40, 3)
    uniform = simulate(environment, "uniform", 40, 3)
    np.testing.assert_allclose(narrow.regret, uniform.regret, atol=1e-12)
    assert resolve("dapo", {"skipping": True})(inside_problem()).threshold == 4
    assert resolve("dapo", {"skipping": 0})(inside_problem()).threshold == 0
    assert isinstance(resolve("dapo", {"skipping": False})(inside_problem()), DAPO)


def inside_problem(total_delay=16):
    from tabpo.learners import Problem

    return Problem(MDP, 10, 2, total_delay, 8)


def expected_guesses(delays):
    """Return per episode the guesses of K and D for the next one, from the definition: powers of two."""
    K, waited, rows = len(delays), 0, []
    for k in range(K):
        waited += sum(j + delays[j] > k for j in range(k + 1))
        rows.append((2 ** (math.floor(math.log2(k + 1)) + 1), 2 ** max(math.ceil(math.log2(max(waited, 1))), 0)))
    return rows, waited


@given(delays=DELAYS, trajectories=st.sampled_from(["immediate", "delayed"]))
@settings(max_examples=50, deadline=None)
def test_doubling_follows_its_rule(delays, trajectories):
    wrapper, made, result = play(Doubling, delays, trajectories)
    K, D = len(delays), sum(delays)
    guesses, waited = expected_guesses(delays)
    assert wrapper.waited == waited <= D
    in_force = [(1, 1), *guesses]  # for episode 0, 1, ..., K
    starts = [0] + [k for k in range(1, K + 1) if in_force[k] != in_force[k - 1]]
    assert len(made) == len(starts)
    assert wrapper.restarts == result.settings["restarts"] == len(starts) - 1
    for learner, first, after in zip(made, starts, [*starts[1:], K], strict=True):
        guess = learner.problem
        assert (guess.n_episodes, guess.total_delay) == in_force[first]
        assert learner.acted == list(range(after - first))  # it counts from its own start
        for k, arrived, seen, arrivals in learner.learned:
            absolute = [j for j in range(first, K) if j + delays[j] == k + first]  # none from before the start
            assert arrived == [j - first for j in absolute]
            assert seen == ([k] if trajectories == "immediate" else arrived)
            assert [j.episode for j in arrivals] == arrived
        # Never more than twice the truth, and the guess of K covers every episode of its epoch.
        assert guess.n_episodes <= 2 * K
        assert guess.total_delay <= max(2 * D, 1)
        assert after - 1 < guess.n_episodes or after == first
    assert wrapper.restarts <= (math.log2(K) + 1) + (math.log2(max(D, 1)) + 1)


def test_restarts_grow_like_the_logarithm():
    """32 times the episodes with a fixed delay: 5 more doublings of K and 5 of D, not 32 times the restarts."""
    few = play(Doubling, [5] * 64)[0].restarts
    many = play(Doubling, [5] * 2048)[0].restarts
    assert few < many <= few + 10


def test_doubling_makes_dapo_start_afresh_with_the_step_size_of_the_guesses():
    environment = Environment(MDP, np.array([[[0.1, 0.9]] * 2] * 2), 3)
    result = simulate(environment, resolve("dapo", {"tuning": "practical", "doubling": True}), 20, 2, checkpoints=[20])
    assert (result.settings["guessed_episodes"], result.settings["guessed_delay"]) == (32, 64)
    assert result.settings["step_size"] == pytest.approx((4 * 32 + 64) ** -0.5)


def test_doubling_around_skipping_learns():
    """Both at once, and the regret is below 0.6 of that of uniform play."""
    environment = Environment(MDP, np.array([[[0.0, 1.0]] * 2] * 2), [3] * 1900 + [400] * 100)
    learner = resolve("dapo", {"tuning": "practical", "bonus_scale": 0.0, "skipping": True, "doubling": True})
    result = simulate(environment, learner, 2000, 4, checkpoints=[2000])
    assert (result.regret < simulate(environment, "uniform", 2000).regret[-1] * 0.6).all()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"skipping": -1}, "skipping must be true, false or a number of episodes, got -1"),
        ({"skipping": "long"}, "got 'long'"),
        ({"skipping": 2.5}, "got 2.5"),
        ({"doubling": 2}, "doubling must be true or false, got 2"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        resolve("dapo", parameters)


def test_a_negative_threshold_gets_a_sentence():
    with pytest.raises(InvalidInputError, match="the skipping threshold must be at least 0 episodes, got -2"):
        Skipping(inside_problem(), DAPO, threshold=-2)
