"""A run's numbers depend on its seed and index only; order of arrivals; edge sizes; memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, simulate
from tabpo.environments import ArrayLosses, BernoulliLosses, GeometricDelays, SwitchingLosses
from tabpo.learners import DAPO, LEARNERS, Optimal, Problem, resolve

K = 40


def random_model(rng, H, S, A):
    return TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S)))


BANDITS = ("tsallis_inf", "exp3", "exp3_p", "ucb1")
"""Learners for problems of one step and one state."""


@pytest.fixture
def environment(rng, request):
    H, S, A = sizes_for(getattr(request.node, "callspec", None) and request.node.callspec.params.get("name"))
    return Environment(
        random_model(rng, H, S, A), ArrayLosses(rng.random((K, H, S, A)), "bernoulli"), [0, 3, 9, 1] * 10
    )


MOVING = ("bobw_log_barrier", "uob_ftrl", "ucb1")
"""Learners that move without feedback: by virtual episodes, by the trajectories seen, by trying the arms in turn."""


def sizes_for(name, H=2, S=3, A=2):
    return (1, 1, A) if name in BANDITS else (H, S, A)


def numbers(result, column=slice(None)):
    return np.stack(
        [getattr(result, name)[:, column] for name in ("regret", "final_regret", "expected_loss", "sampled_loss")]
    )


EVERY_LEARNER = [*LEARNERS, "dapo with skipping and doubling", "experiments/my_learner.py:FollowTheLeader"]


def make(name):
    """Return a function that makes the learner; user files are looked for in the project's folder."""
    if " " in name:
        return resolve("dapo", {"skipping": 4, "doubling": True})
    return resolve(name, base_folder=Path(__file__).parents[1])


@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_a_run_depends_on_its_seed_and_index_only(name, environment):
    learner = make(name)
    together = simulate(environment, learner, K, 20, 7)
    for run in (0, 13, 19):
        alone = simulate(environment, learner, K, 1, 7, runs=[run])
        np.testing.assert_array_equal(numbers(alone, 0), numbers(together, run))
    elsewhere = simulate(environment, learner, K, 5, 7, runs=[13, 2, 99, 13, 0])
    for column, run in ((0, 13), (3, 13), (1, 2), (4, 0)):
        np.testing.assert_array_equal(numbers(elsewhere, column), numbers(together, run))
    # Different numbers for another run, a run of another seed; sampled losses of 80 draws coincide at every
    # checkpoint with probability below 1e-6.
    paths = [
        *together.sampled_loss.T,
        elsewhere.sampled_loss[:, 2],
        *simulate(environment, learner, K, 2, 8).sampled_loss.T,
    ]
    assert len({tuple(path) for path in paths}) == len(paths)


@pytest.mark.parametrize("name", [name for name in EVERY_LEARNER if name != "delayed_hedge"])
def test_a_run_is_the_same_alone_with_many_states_and_actions(name, rng):
    """Sums of eight terms and more are where array libraries change their order with the array's layout."""
    H, S, A = sizes_for(name, 2, 9, 9)
    environment = Environment(random_model(rng, H, S, A), ArrayLosses(rng.random((12, H, S, A))), [0, 3, 1] * 4)
    # The theory's log-barrier would play thousands of virtual episodes first.
    learner = resolve(name, {"tuning": "practical"}) if name == "bobw_log_barrier" else make(name)
    together = simulate(environment, learner, 12, 3, 7)
    alone = simulate(environment, learner, 12, 1, 7, runs=[2])
    np.testing.assert_array_equal(numbers(alone, 0), numbers(together, 2))


@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_checkpoints_are_only_looked_at(name, environment):
    every = simulate(environment, make(name), K, 3, 7, checkpoints=range(1, K + 1))
    some = simulate(environment, make(name), K, 3, 7, checkpoints=[5, 17])
    assert some.episodes.tolist() == [5, 17, K]
    np.testing.assert_array_equal(numbers(some), numbers(every)[:, some.episodes - 1])
    np.testing.assert_array_equal(some.comparator_loss, every.comparator_loss[some.episodes - 1])


def test_step_sizes_per_run_are_those_of_runs_apart(environment):
    """A repeated run index is the same randomness for another step size."""
    steps = [0.05, 0.2, 0.05]
    together = simulate(environment, partial(DAPO, step_size=steps), K, 3, 7, runs=[4, 4, 4])
    for column, step in enumerate(steps):
        alone = simulate(environment, partial(DAPO, step_size=step), K, 1, 7, runs=[4])
        np.testing.assert_array_equal(numbers(alone, 0), numbers(together, column))
    assert together.settings["step_size"] == steps
    assert alone.settings["step_size"] == 0.05


def test_dapo_does_not_look_at_trajectories_before_their_losses(environment):
    late = Environment(environment.mdp, environment.losses, environment.delays, "delayed")
    for name in ("dapo", "d_oppo"):
        now, later = (simulate(e, name, K, 3, 7) for e in (environment, late))
        np.testing.assert_array_equal(numbers(now), numbers(later))


class Recorder:
    """Plays uniformly and writes down what it is handed."""

    def __init__(self, problem):
        self.problem, self.calls, self.policy = problem, [], np.full((*problem.mdp.shape, problem.n_runs), 0.5)

    def act(self, k):
        return self.policy

    def learn(self, k, arrivals):
        self.calls.append((k, arrivals))


def recorded(environment, n_episodes=K, n_runs=3):
    kept = []

    def keep(problem):
        kept.append(Recorder(problem))
        return kept[0]

    return simulate(environment, keep, n_episodes, n_runs, 7), kept[0]


@pytest.mark.parametrize("trajectories", ["immediate", "delayed"])
def test_each_feedback_arrives_once_in_time_and_in_order(trajectories, rng):
    delays = rng.integers(0, 12, K)
    mdp, losses = random_model(rng, 2, 3, 2), rng.random((K, 2, 3, 2))
    result, learner = recorded(Environment(mdp, losses, delays, trajectories))
    assert [k for k, _ in learner.calls] == list(range(K))
    played = {}
    for k, arrivals in learner.calls:
        expected = [j for j in range(K) if j + delays[j] == k]
        assert [j.episode for j in arrivals] == expected
        assert [t.episode for t in arrivals.trajectories] == ([k] if trajectories == "immediate" else expected)
        for t in arrivals.trajectories:
            played[t.episode] = t
        for j in arrivals:
            np.testing.assert_array_equal(j.states, played[j.episode].states)
            np.testing.assert_array_equal(j.actions, played[j.episode].actions)
            np.testing.assert_array_equal(j.losses, losses[j.episode, [[0], [1]], j.states, j.actions])
    assert result.lost_feedback == sum(j + delays[j] >= K for j in range(K))
    assert max(len(arrivals) for _, arrivals in learner.calls) > 2  # several at once occurred
    assert (learner.problem.total_delay, learner.problem.max_delay) == (delays.sum(), delays.max())


def test_every_learner_meets_the_same_environment(rng):
    """Same losses and delays whatever the learner, its own draws, and the number of runs: seen through comparators."""
    mdp = random_model(rng, 2, 3, 2)
    environment = Environment(mdp, SwitchingLosses(n_switches=5), GeometricDelays(5.0))
    names = [name for name in EVERY_LEARNER if name not in BANDITS]
    results = [simulate(environment, make(name), K, R, 7) for name in names for R in (1, 3)]
    for result in results:
        np.testing.assert_array_equal(result.comparator_loss, results[0].comparator_loss[:, :1] + 0 * result.regret)
        assert result.total_delay == results[0].total_delay
        assert result.lost_feedback == results[0].lost_feedback
    assert simulate(environment, "uniform", K, 1, 8).total_delay != results[0].total_delay
    fixed = Environment(mdp, SwitchingLosses(n_switches=5), GeometricDelays(5.0), seed=7)
    assert simulate(fixed, "uniform", K, 1, 8).total_delay == results[0].total_delay


def test_learners_that_act_alike_draw_the_same_trajectories(environment):
    """Trajectory randomness is by run, not by learner: a figure compares learners on common random numbers."""
    first = [
        simulate(replace(environment, delays=0), make(name), 1, 4, 7).sampled_loss
        for name in ("dapo", "d_oppo", "uniform")
    ]
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[0], first[2])


@pytest.mark.parametrize("name", EVERY_LEARNER)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 2, 2, 5), (3, 1, 2, 5), (2, 2, 1, 5), (2, 2, 2, 1)])
def test_edge_sizes(name, sizes, rng):
    *given, n_episodes = sizes
    H, S, A = sizes_for(name, *given)
    environment = Environment(random_model(rng, H, S, A), rng.random((n_episodes, H, S, A)), 1)
    result = simulate(environment, make(name), n_episodes, 2, 0)
    assert np.isfinite(numbers(result)).all()
    if A == 1:
        np.testing.assert_allclose(result.regret, 0, atol=1e-12)
    assert result.lost_feedback == 1
    assert result.episodes[-1] == n_episodes


@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_without_any_feedback_nothing_is_learned(name, rng):
    """All delays K or more, also beyond any machine integer's half: every policy is the first one, with exceptions."""
    sizes = sizes_for(name, 2, 2, 2)
    mdp, losses = random_model(rng, *sizes), rng.random(sizes)
    for delays in (6, [6, 5, 4, 3, 2, 1], [10**9] * 6, [2**62] * 6):
        result = simulate(Environment(mdp, losses, delays), make(name), 6, 2, 0, checkpoints=range(1, 7))
        assert result.lost_feedback == 6
        if name not in MOVING:
            np.testing.assert_allclose(np.diff(result.expected_loss, axis=0), result.expected_loss[:1].repeat(5, 0))
        assert result.max_delay <= 6


def test_anchors(environment):
    """The optimal policy's final regret is 0, and its regret at no checkpoint negative."""
    result = simulate(environment, "optimal", K, 3, 7)
    np.testing.assert_allclose(result.final_regret, 0, atol=1e-12)
    assert (result.regret > -1e-12).all()
    assert (result.regret[0] > 0.01).all()  # the best of all K episodes was not the best of the first
    with pytest.raises(InvalidInputError, match=r"needs problem\.best_policy"):
        Optimal(Problem(environment.mdp, n_episodes=1, n_runs=1, total_delay=0, max_delay=0))


def test_memory_does_not_grow_with_the_number_of_episodes(rng):
    """Peaks of 500 and of 4000 episodes with delay 20 and losses made on the way: one policy kept per episode is 1 MB.

    What grows is the delays, 8 bytes an episode (and a few copies while their memory is checked).
    """
    environment = Environment(random_model(rng, 5, 5, 4), BernoulliLosses(), 20)
    simulate(environment, "dapo", 300, 4)  # imports, compilation

    def peak(n_episodes):
        tracemalloc.start()
        simulate(environment, "dapo", n_episodes, 4, checkpoints=10)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    policies = 3500 * 5 * 5 * 4 * 4 * 8
    assert peak(4000) - peak(500) < 0.03 * policies


def test_progress_reports_the_episodes_played(environment):
    seen = []
    simulate(environment, "uniform", K, 1, progress=seen.append)  # too quick for the five reports a second
    assert seen in ([], [K])


def test_result_as_a_table(environment):
    result = simulate(environment, "dapo", K, 3, 7, runs=[4, 0, 2], checkpoints=5)
    table = result.frame()
    assert len(table) == len(result.episodes) * 3
    for column in (
        "regret",
        "final_regret",
        "expected_loss",
        "sampled_loss",
        "comparator_loss",
        "final_comparator_loss",
    ):
        wide = table.pivot(index="episode", columns="run", values=column)[[4, 0, 2]]
        np.testing.assert_array_equal(wide.to_numpy(), getattr(result, column))
