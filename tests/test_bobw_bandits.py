"""With one step best-of-both-worlds policy optimization is a bandit learner at every state: Tsallis-INF, EXP3."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, TabularMDP, simulate
from tabpo.learners import EXP3, LogBarrierPO, ShannonPO, TsallisINF, TsallisPO
from tests.bandit_references import exp3_policies, tsallis_inf_policies
from tests.bobw_pieces import EVERY, problem, random_model, recorded

T, A, R = 1000, 4, 2
BARE = {"exploration": 0, "initial_rate": 0}


def bandit(n_arms):
    return TabularMDP(np.ones((1, 1, n_arms, 1)), np.ones(1))


@pytest.fixture(scope="module")
def played():
    """Return losses (T, 1, 1, A) and delays of up to 40 rounds."""
    rng = np.random.default_rng(4)
    losses = np.clip(rng.random((T, A)) + np.linspace(-0.2, 0.2, A), 0, 1)[:, None, None, :]
    return losses, rng.integers(0, 41, T)


def remembered(make):
    """Return a function that makes the learner, and a list that will hold the arms (T, R) that it played."""
    arms = []

    def build(problem):
        built = make(problem)
        learn, known = built.learn, {}

        def watch(k, arrivals):
            known.update({t.episode: t.actions[0] for t in arrivals.trajectories})
            arms.append(known[k])
            learn(k, arrivals)

        built.learn = watch
        return built

    return build, arms


REDUCTIONS = {
    "tsallis_inf": (partial(TsallisPO, rate=1, **BARE), tsallis_inf_policies),
    "tsallis_inf, practical": (partial(TsallisPO, rate=1, tuning="practical", **BARE), tsallis_inf_policies),
    # 1/eta = 1/eta_0 + kappa sum ..., and a kappa of 1e-300 adds nothing to it
    "exp3": (
        partial(
            ShannonPO, rate=1e-300, tuning="practical", exploration=0, initial_rate=math.sqrt(A * T / 2 / math.log(A))
        ),
        exp3_policies,
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
def test_bandit_learners_by_other_means(played, name, delayed):
    """1,000 rounds at 1e-12, each policy held against a solve of its own."""
    make, reference = REDUCTIONS[name]
    losses, delays = played
    build, arms = remembered(partial(make, adapt=False))
    _, _, policies = recorded(Environment(bandit(A), losses, delays if delayed else 0), build, T, R)
    for r in range(R):
        mine = policies[:, 0, 0, :, r]
        expected = reference(losses[:, 0, 0], np.array(arms)[:, r], delays if delayed else None, mine)
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-12)
    assert policies[-1].max() > 0.3


@pytest.mark.parametrize(
    ("name", "bandit_learner"), [("tsallis_inf", TsallisINF), ("exp3", EXP3)], ids=["tsallis_inf", "exp3"]
)
def test_bandit_learners_of_the_registry(played, name, bandit_learner):
    """The same simulation. Rounding grows where a policy's own probabilities divide: 1e-6 is asked for here."""
    losses, _ = played
    one, other = (
        simulate(Environment(bandit(A), losses), make, T, R, 11) for make in (REDUCTIONS[name][0], bandit_learner)
    )
    np.testing.assert_array_equal(one.sampled_loss, other.sampled_loss)
    np.testing.assert_allclose(one.expected_loss, other.expected_loss, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_bonuses_vanish_with_one_step(name, rng):
    """A state's own bonus is the same for all its actions, and there is no earlier step."""
    S = 3
    environment = Environment(random_model(rng, 1, S, A, np.array([0.5, 0.2, 0.3])), rng.random((200, 1, S, A)), 2)
    with_bonus, without = (
        recorded(environment, partial(EVERY[name], tuning="practical", **given), 200)[2]
        for given in ({}, {"bonus_scale": 0.0})
    )
    np.testing.assert_allclose(with_bonus, without, rtol=0, atol=1e-9)
    assert np.abs(without - 1 / A).max() > 0.1


def test_states_of_one_step_are_bandits_of_their_own(rng):
    """At a state of probability mu, Tsallis-INF with losses over mu and rates of 1/mu episodes a visit."""
    initial = np.array([0.25, 0.75])
    losses = rng.random((100, 1, 2, A))
    make, arms = remembered(partial(TsallisPO, rate=1, **BARE))
    states = []

    def build(problem):
        built = make(problem)
        learn = built.learn

        def watch(k, arrivals):
            states.append(arrivals[0].states[0])
            learn(k, arrivals)

        built.learn = watch
        return built

    mdp = random_model(rng, 1, 2, A, initial)
    _, _, policies = recorded(Environment(mdp, losses), build, 100, R)
    for r, s in np.ndindex(R, 2):
        scaled = losses[:, 0, s] / initial[s] * (np.array(states)[:, r] == s)[:, None]
        # eta_t = 2 / sqrt(t) there, 2 / sqrt(t / mu) here: all estimates times sqrt(mu)
        scaled = scaled * math.sqrt(initial[s])
        mine = policies[:, 0, s, :, r]
        expected = tsallis_inf_policies(scaled, np.array(arms)[:, r], None, mine)
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-12)


def test_log_barrier_of_two_arms_by_hand():
    """1/eta = 3, loss 1 for the first arm: L = (2, 0), and 1/eta = 3 + (1/2)^2 / (3 ln K) for both arms.

    p = v / (L - x) with v / (2 - x) + v / (-x) = 1: x^2 - 2 (1 - v) x - 2 v = 0.
    """
    K = 10
    _, _, policies = recorded(
        Environment(bandit(2), np.array([[[1.0, 1.0]]])), partial(LogBarrierPO, tuning="practical"), K, 8
    )
    v = 3 + 0.25 / (3 * math.log(K))
    x = (1 - v) - math.sqrt((1 - v) ** 2 + 2 * v)
    assert np.sort(np.unique(policies[1].round(12))) == pytest.approx(np.sort([v / (2 - x), v / -x]), abs=1e-12)


def test_problem_sizes_of_one_are_played():
    for name in EVERY:
        built = EVERY[name](problem(bandit(1)))
        assert (built.act(0) == 1).all()
