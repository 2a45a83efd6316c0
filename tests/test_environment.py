"""The environment: what all runs meet is a function of one seed, and what does not fit is a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabpo.environments import (
    AdversarialDelays,
    ArrayDelays,
    BernoulliLosses,
    BurstDelays,
    Environment,
    FixedDelays,
    GeometricDelays,
    NoDelays,
    ParetoDelays,
    PoissonDelays,
    RandomWalkLosses,
    SwitchingLosses,
    UniformDelays,
)
from tabpo.errors import InvalidInputError
from tabpo.mdp import TabularMDP
from tabpo.streams import Purpose, stream

H, S, A = 2, 3, 2
RNG = np.random.default_rng(0)
MDP = TabularMDP(RNG.dirichlet(np.ones(S), (H, S, A)), np.eye(S)[0], RNG.random((H, S, A)))
LOSSES = RNG.random((H, S, A))


def arrivals(delays: np.ndarray) -> dict[int, list[int]]:
    """Episodes whose feedback arrives at the end of each episode, as a learner sees them."""
    return {k: [j for j in range(k + 1) if j + delays[j] == k] for k in range(len(delays))}


@given(
    st.one_of(
        st.just(NoDelays()),
        st.integers(0, 60).map(FixedDelays),
        st.integers(0, 9).map(lambda low: UniformDelays(low, low + 20)),
        st.floats(0, 40).map(GeometricDelays),
        st.floats(0, 40).map(PoissonDelays),
        st.floats(0.1, 3).map(ParetoDelays),
        st.integers(1, 60).map(BurstDelays),
        st.tuples(st.integers(1, 12), st.integers(0, 30)).map(lambda both: AdversarialDelays(*both)),
        st.lists(st.integers(0, 60), min_size=40, max_size=40).map(ArrayDelays),
    ),
    st.integers(0, 1000),
)
def test_every_episode_arrives_at_most_once_and_the_others_are_late(law, seed):
    world = Environment(MDP, SwitchingLosses(period=9), law).realise(40, seed)
    arrived = Counter(j for batch in arrivals(world.delays).values() for j in batch)
    assert set(arrived.values()) <= {1}
    never = {k for k in range(40) if k + world.delays[k] >= 40}
    assert set(arrived) | never == set(range(40))
    assert not set(arrived) & never


def test_feedback_withheld_after_a_switch_arrives_together_after_the_window():
    world = Environment(MDP, SwitchingLosses(period=10), AdversarialDelays(length=4, extra=2)).realise(30, 0)
    assert world.losses.switches.tolist() == [10, 20]
    seen = arrivals(world.delays)
    assert seen[9] == [9]
    assert not any(seen[k] for k in (10, 11, 12, 13))
    assert seen[14] == [14]
    assert seen[15] == [10, 11, 12, 13, 15]


def test_losses_and_delays_have_a_stream_each():
    environment = Environment(MDP, BernoulliLosses(), GeometricDelays(9))
    world = environment.realise(50, 4)
    expected = BernoulliLosses().realise(MDP, 50, stream(4, Purpose.LOSSES))
    np.testing.assert_array_equal(world.losses.mean(0), expected.mean(0))
    delays = GeometricDelays(9).realise(50, stream(4, Purpose.DELAYS), expected.switches)
    np.testing.assert_array_equal(world.delays, delays)
    # the losses do not change with the delay law
    other = Environment(MDP, RandomWalkLosses(), 3).realise(50, 4)
    again = Environment(MDP, RandomWalkLosses(), GeometricDelays(2)).realise(50, 4)
    np.testing.assert_array_equal(other.losses.mean(49), again.losses.mean(49))


def test_seed_of_the_environment_comes_first():
    def drawn(environment_seed, seed):
        return Environment(MDP, RandomWalkLosses(), GeometricDelays(9), seed=environment_seed).realise(30, seed)

    for one, other, same in ((drawn(None, 1), drawn(None, 1), True), (drawn(7, 1), drawn(7, 2), True)):
        assert ((one.delays == other.delays).all(), (one.losses.mean(9) == other.losses.mean(9)).all()) == (same, same)
    np.testing.assert_array_equal(drawn(7, 1).delays, drawn(None, 7).delays)
    assert (drawn(None, 1).delays != drawn(None, 2).delays).any()


def test_arrays_and_numbers_will_do():
    world = Environment(MDP, LOSSES, 3).realise(5, 0)
    assert (world.mdp, world.n_episodes, world.trajectories) == (MDP, 5, "immediate")
    np.testing.assert_array_equal(world.losses.mean(4), LOSSES)
    assert world.delays.tolist() == [3] * 5
    assert world.losses.noise == "none"
    per_episode = np.random.default_rng(1).random((5, H, S, A))
    world = Environment(MDP, per_episode, [0, 4, 1, 9, 0], "delayed").realise(5, 0)
    np.testing.assert_array_equal([world.losses.mean(k) for k in range(5)], per_episode)
    assert world.delays.tolist() == [0, 4, 1, 9, 0]
    world = Environment(MDP).realise(5, 0)
    np.testing.assert_array_equal(world.losses.mean(0), MDP.losses)
    assert not world.delays.any()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Environment("MDP", LOSSES), "mdp must be a TabularMDP, got a str"),
        (lambda: Environment(MDP, LOSSES[:1]), r"losses must have the shape \(H, S, A\) = \(2, 3, 2\), .*\(1, 3, 2\)"),
        (lambda: Environment(MDP, LOSSES[None, :1]), r"losses must have the shape .*, got \(1, 1, 3, 2\)"),
        (lambda: Environment(MDP, LOSSES[0]), r"losses must have 3 axes \(h, s, a\), got shape \(3, 2\)"),
        (lambda: Environment(MDP, LOSSES + 1), r"losses is 1\.\d+ at .*; it must lie in \[0, 1\]"),
        (lambda: Environment(MDP, FixedDelays(3)), "losses got a FixedDelays; were losses and delays swapped"),
        (lambda: Environment(MDP, LOSSES, BernoulliLosses()), "delays got a BernoulliLosses; were losses and delays"),
        (lambda: Environment(MDP, BernoulliLosses), "losses must be an object, got the class BernoulliLosses; write"),
        (lambda: Environment(MDP, "bernoulli"), "losses must be an object or an array, got the name 'bernoulli'"),
        (lambda: Environment(MDP, LOSSES, "geometric"), "delays must be an object or an array, got the name"),
        (lambda: Environment(MDP, LOSSES, -1), "delay must be an integer of at least 0, got -1"),
        (lambda: Environment(MDP, LOSSES, 1.5), "delay must be an integer of at least 0, got 1.5"),
        (lambda: Environment(MDP, LOSSES, [1, -1]), "delays is -1 at episode 1"),
        (lambda: Environment(MDP, LOSSES, [1, 0.5]), r"delays is 0\.5 at episode 1"),
        (lambda: Environment(MDP, LOSSES, 0, "late"), "unknown trajectories 'late'"),
        (lambda: Environment(MDP, LOSSES, seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: Environment(MDP, LOSSES).realise(0, 0), "n_episodes must be an integer of at least 1, got 0"),
        (lambda: Environment(MDP, LOSSES).realise(3, -1), "seed must be an integer of at least 0, got -1"),
        (lambda: Environment(MDP, LOSSES[None]).realise(3, 0), "losses for 1 episodes, but n_episodes is 3"),
        (lambda: Environment(MDP, LOSSES, [1, 2]).realise(3, 0), "delays has 2 entries, but n_episodes is 3"),
        (lambda: Environment(MDP, LOSSES, [1, 2]).realise(1, 0), "delays has 2 entries, but n_episodes is 1"),
    ],
)
def test_what_does_not_fit_is_a_sentence(make, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make()


@dataclass
class OwnLosses:
    """A user's losses, recipe and realisation in one."""

    means: object
    noise: str = "none"
    switches: object = field(default_factory=list)

    def realise(self, mdp, n_episodes, rng):
        return self

    def mean(self, k):
        return self.means


@dataclass
class OwnDelays:
    delays: object

    def realise(self, n_episodes, rng, switches):
        return self.delays


def test_own_losses_and_delays():
    world = Environment(MDP, OwnLosses(LOSSES.tolist(), switches=[2]), OwnDelays([0, 3, 1.0])).realise(3, 0)
    np.testing.assert_array_equal(world.losses.mean(1), LOSSES)
    assert world.losses.mean(1).dtype == np.float64
    assert world.losses.switches.dtype == world.delays.dtype == np.int64
    assert world.delays.tolist() == [0, 3, 1]
    assert Environment(MDP, OwnLosses(LOSSES)).realise(3, 0).losses.switches.dtype == np.int64


@pytest.mark.parametrize(
    ("losses", "delays", "sentence"),
    [
        (OwnLosses(2 * LOSSES + 1), 0, r"OwnLosses\.mean\(0\) is .*; it must lie in \[0, 1\]"),
        (OwnLosses(LOSSES[:1]), 0, r"OwnLosses\.mean\(0\) must have shape \(H, S, A\) = \(2, 3, 2\), got \(1, 3, 2\)"),
        (OwnLosses(LOSSES, noise="gauss"), 0, "unknown noise 'gauss'"),
        (OwnLosses(LOSSES, switches=[3]), 0, r"OwnLosses\.switches must be increasing episodes in 0 \.\.\. 2"),
        (OwnLosses(LOSSES, switches=[2, 1]), 0, r"OwnLosses\.switches must be increasing episodes"),
        (OwnLosses(LOSSES), OwnDelays([0, -1, 2]), "the delay that OwnDelays returns is -1 at episode 1"),
        (OwnLosses(LOSSES), OwnDelays([0, 0.5, 2]), r"the delay that OwnDelays returns is 0\.5 at episode 1"),
        (OwnLosses(LOSSES), OwnDelays([0, 1]), r"OwnDelays\.realise must return 3 delays, it returned 2"),
        (OwnLosses(LOSSES), OwnDelays(None), "the delay that OwnDelays returns must be a list of whole numbers"),
    ],
)
def test_own_losses_and_delays_are_checked(losses, delays, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        Environment(MDP, losses, delays).realise(3, 0).losses.mean(0)


def test_own_losses_without_noise_are_a_sentence():
    class Bare:
        def realise(self, mdp, n_episodes, rng):
            return self

        def mean(self, k):
            return LOSSES

    with pytest.raises(InvalidInputError, match=r"need noise, switches and mean\(k\), or .*; Bare has no 'noise'"):
        Environment(MDP, Bare()).realise(3, 0)


def test_importing_environments_is_light():
    code = (
        "import sys, tabpo.environments; print(sorted({'gymnasium', 'numba', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
