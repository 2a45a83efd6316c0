"""Bandit learners: against scalar loops by other means, estimators by enumeration, published bounds, stored figures."""

from __future__ import annotations

import math
from functools import partial

import array_api_strict
import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, simulate
from tabpo.environments import ArrayLosses, BernoulliLosses, GeometricDelays, HardLosses, SwitchingLosses
from tabpo.learners import Feedback, Problem
from tabpo.learners.bandits import EXP3, EXP3P, UCB1, TsallisINF
from tabpo.learners.protocol import Arrivals
from tests.bandit_references import exp3_p_policies, exp3_policies, tsallis_inf_policies, ucb1_arms

REDUCED = partial(TsallisINF, estimator="reduced_variance")
ANYTIME = partial(EXP3, schedule="anytime")
EVERY = {
    "tsallis_inf": TsallisINF,
    "reduced_variance": REDUCED,
    "exp3": EXP3,
    "anytime": ANYTIME,
    "exp3_p": EXP3P,
    "ucb1": UCB1,
}
every_learner = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)


def bandit(n_arms):
    return TabularMDP(np.ones((1, 1, n_arms, 1)), np.ones(1))


def problem(n_arms, n_episodes, n_runs=1):
    return Problem(bandit(n_arms), n_episodes, n_runs, 0, 0)


def feedback(episode, actions, losses, policy):
    """Return the feedback of an episode: the arms played (R,), their losses (R,) and the policy (1, 1, A, R)."""
    occupancy = np.ones((1, 1, len(actions)))
    return Feedback(episode, np.zeros((1, len(actions)), int), actions[None], losses[None], policy, occupancy)


def play(learner, losses, delays, rng):
    """Return the policies (T, A, R) of a learner and the arms (T, R) drawn from them; losses are (T, A, R)."""
    T, _, R = losses.shape
    policies, actions = [], []
    pending = {}
    for k in range(T):
        policy = learner.act(k)
        arms = (rng.random(R) > policy[0, 0].cumsum(0)).sum(0)
        pending.setdefault(k + delays[k], []).append(feedback(k, arms, losses[k, arms, np.arange(R)], policy))
        policies.append(policy[0, 0])
        actions.append(arms)
        learner.learn(k, Arrivals(tuple(pending.pop(k, ()))))
    return np.array(policies), np.array(actions)


SCALED = {"estimator": "reduced_variance", "step_scale": 0.3}
REFERENCES = {
    "tsallis_inf": (TsallisINF, tsallis_inf_policies),
    "reduced_variance": (REDUCED, partial(tsallis_inf_policies, estimator="reduced_variance")),
    "scaled": (partial(TsallisINF, **SCALED), partial(tsallis_inf_policies, **SCALED)),
    "exp3": (EXP3, exp3_policies),
    "anytime": (ANYTIME, partial(exp3_policies, anytime=True)),
    "exp3_p": (EXP3P, exp3_p_policies),
    "exp3_p_delta": (partial(EXP3P, failure_probability=0.05), partial(exp3_p_policies, delta=0.05)),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
def test_policies_against_a_scalar_loop(name, delayed, rng):
    """1,000 rounds, 4 arms, 2 runs; delays of up to 40 rounds, the last of which never arrive.

    1e-12 where the reference divides by the learner's policies; 1e-6 where by its own, see there.
    """
    make, reference = REFERENCES[name]
    T, A, R = 1000, 4, 2
    losses = np.clip(rng.random((T, A, R)) + np.linspace(-0.2, 0.2, A)[:, None], 0, 1)
    delays = rng.integers(0, 41, T) if delayed else np.zeros(T, int)
    policies, actions = play(make(problem(A, T, R)), losses, delays, rng)
    for r in range(R):
        expected = reference(losses[..., r], actions[:, r], delays, policies[..., r])
        np.testing.assert_allclose(policies[..., r], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(policies[..., 0], reference(losses[..., 0], actions[:, 0], delays), rtol=0, atol=1e-6)
    assert policies[-1].max() > 0.3  # it has learned something


@pytest.mark.parametrize("delayed", [False, True], ids=["at_once", "delayed"])
@pytest.mark.parametrize("width_scale", [1.0, 0.3])
def test_arms_of_ucb1_against_a_brute_loop(delayed, width_scale, rng):
    """Losses of 0 and 1, so that ties are many."""
    T, A, R = 400, 3, 2
    losses = (rng.random((T, A, R)) < np.array([0.6, 0.4, 0.5])[:, None]).astype(float)
    delays = rng.integers(0, 15, T) if delayed else np.zeros(T, int)
    policies, actions = play(UCB1(problem(A, T, R), width_scale=width_scale), losses, delays, rng)
    assert set(np.unique(policies)) == {0.0, 1.0}
    for r in range(R):
        assert actions[:, r].tolist() == ucb1_arms(losses[..., r], delays, width_scale)


def test_ucb1_plays_in_turn_until_each_arm_has_a_loss():
    """3 arms, losses after 4 episodes: those of arms 0, 1, 2 are there at episodes 5, 6, 7. All losses are equal."""
    learner = UCB1(problem(3, 20))
    _, actions = play(learner, np.full((8, 3, 1), 0.5), np.full(8, 4), np.random.default_rng(0))
    assert actions[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 0]  # then a tie, which goes to the lowest arm


WEIGHTS = np.array([0.02, 0.58, 0.15, 0.25])
LOSSES = np.array([0.9, 0.0, 0.4, 1.0])


def estimates(learner, episode):
    """Return the estimates (A, A) that a learner adds to arm a when arm r was played with the weights above."""
    A = len(WEIGHTS)
    policy = np.repeat(WEIGHTS[None, None, :, None], A, axis=-1)
    learner.learn(episode, Arrivals((feedback(episode, np.arange(A), LOSSES, policy),)))
    return (learner.gains if isinstance(learner, EXP3P) else learner.losses)[0, 0]


@pytest.mark.parametrize("make", [TsallisINF, REDUCED, EXP3, ANYTIME])
@pytest.mark.parametrize("episode", [0, 99, 10**6])
def test_loss_estimates_are_unbiased(make, episode):
    """The mean over the arm played; at episode 99, eta^2 = 16/100 is between the weights."""
    estimated = estimates(make(problem(4, 1000, 4)), episode)
    np.testing.assert_allclose(estimated @ WEIGHTS, LOSSES, rtol=0, atol=1e-14)


def test_baseline_of_reduced_variance():
    """Unplayed arms get 1/2 if their weight is at least eta^2 = 16/100, else 0; a played arm b + (l - b) / w."""
    estimated = estimates(REDUCED(problem(4, 1000, 4)), 99)
    np.testing.assert_array_equal(estimated[:, 0], [0.9 / 0.02, 0.5, 0, 0.5])
    np.testing.assert_allclose(estimated[1], [0.5, 0.5 - 0.5 / 0.58, 0.5, 0.5], rtol=1e-15)
    # what it is for: around the baseline, the second moment is (l - 1/2)^2 / w, at most a quarter of 1 / w
    moments = (estimated - 0.5) ** 2 @ WEIGHTS
    np.testing.assert_allclose(moments[[1, 3]], ((LOSSES - 0.5) ** 2 / WEIGHTS)[[1, 3]], rtol=1e-14)


def test_gain_estimates_are_optimistic_by_the_bias():
    learner = EXP3P(problem(4, 1000, 4), bias=0.1)
    np.testing.assert_allclose(estimates(learner, 5) @ WEIGHTS, 1 - LOSSES + 0.1 / WEIGHTS, rtol=1e-14)


def test_parameters_follow_the_theorems():
    """A = 4, K = 100."""
    given = problem(4, 100, 2)
    assert TsallisINF(given).step_size(24)[0] == pytest.approx(2 / 5)
    assert REDUCED(given, step_scale=[1, 0.5]).step_size(24).tolist() == pytest.approx([4 / 5, 2 / 5])
    log4 = 1.3862943611198906
    assert EXP3(given).step_size(24)[0] == pytest.approx(math.sqrt(2 * log4 / 400))
    assert EXP3(given, step_scale=2).step_size(0)[0] == pytest.approx(2 * math.sqrt(2 * log4 / 400))
    assert ANYTIME(given).step_size(24)[0] == pytest.approx(math.sqrt(log4 / 100))
    assert ANYTIME(given, step_size=3).step_size(8)[0] == pytest.approx(1)
    tuned = EXP3P(given)
    assert tuned.step_size[0] == pytest.approx(0.95 * math.sqrt(log4 / 400))
    assert tuned.exploration[0] == pytest.approx(1.05 * math.sqrt(4 * log4 / 100))
    assert tuned.bias[0] == pytest.approx(math.sqrt(log4 / 400))
    assert EXP3P(given, failure_probability=0.25).bias[0] == pytest.approx(math.sqrt(2 * log4 / 400))
    short = EXP3P(problem(4, 1))  # Figure 3.1 has gamma and beta in [0, 1]
    assert (short.exploration[0], short.bias[0]) == (1.0, pytest.approx(math.sqrt(log4 / 4)))


@every_learner
@pytest.mark.parametrize("shape", [(2, 1), (1, 3)])
def test_only_bandits_are_played(make, shape):
    H, S = shape
    mdp = TabularMDP(np.full((H, S, 2, S), 1 / S), np.full(S, 1 / S))
    with pytest.raises(InvalidInputError, match=f"for bandits, H = S = 1, and this MDP has H = {H} and S = {S}; use"):
        make(Problem(mdp, 10, 1, 0, 0))


@pytest.mark.parametrize(
    ("make", "parameters", "sentence"),
    [
        (TsallisINF, {"estimator": "best"}, "must be 'importance_weighted' or 'reduced_variance', got 'best'"),
        (TsallisINF, {"step_scale": 0}, "step_scale must be finite and positive, got 0"),
        (EXP3, {"schedule": "slow"}, "schedule must be 'fixed' or 'anytime', got 'slow'"),
        (EXP3, {"step_scale": 0.0}, "step_scale must be finite and positive, got 0"),
        (EXP3, {"step_size": -1.0}, "step_size must be finite and positive, got -1"),
        (EXP3P, {"failure_probability": 1.0}, "failure_probability must be between 0 and 1, or left out, got 1.0"),
        (EXP3P, {"exploration": 0.0}, "exploration must be finite and positive, got 0"),
        (EXP3P, {"exploration": 1.5}, "exploration must be at most 1, got 1.5"),
        (EXP3P, {"bias": [0.1, 2.0]}, "bias must be at most 1, got 2"),
        (UCB1, {"width_scale": -1}, "width_scale must be finite and at least 0, got -1"),
    ],
)
def test_bad_parameters_get_a_sentence(make, parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make(problem(3, 10, 2), **parameters)


def numbers(result, column=slice(None)):
    return np.stack([getattr(result, name)[:, column] for name in ("regret", "expected_loss", "sampled_loss")])


@every_learner
def test_a_run_depends_on_its_seed_and_index_only(make):
    environment = Environment(bandit(5), BernoulliLosses(0.2), GeometricDelays(5))
    together = simulate(environment, make, 300, 3, 7)
    alone = simulate(environment, make, 300, 1, 7, runs=[1])
    np.testing.assert_array_equal(numbers(alone, 0), numbers(together, 1))
    assert not np.array_equal(numbers(together, 0), numbers(together, 1))


@every_learner
def test_other_array_libraries_give_the_same_numbers(make):
    """The strict one takes only what the standard promises, and stands for CuPy; its kernels are the plain ones."""
    environment = Environment(bandit(3), BernoulliLosses(0.2), 3)
    compiled = simulate(environment, make, 60, 4, 7)
    strict = simulate(environment, make, 60, 4, 7, xp=array_api_strict)
    np.testing.assert_allclose(numbers(strict), numbers(compiled), rtol=1e-9, atol=1e-9)


@every_learner
def test_one_arm(make):
    result = simulate(Environment(bandit(1), np.full((1, 1, 1), 0.3)), make, 20, 2)
    np.testing.assert_allclose(result.regret, 0, atol=1e-12)


def test_a_step_scale_per_run_is_that_of_runs_apart():
    environment = Environment(bandit(3), BernoulliLosses(0.2), 2)
    together = simulate(environment, partial(REDUCED, step_scale=[0.2, 1.0]), 100, 2, 7, runs=[4, 4])
    for column, scale in enumerate((0.2, 1.0)):
        alone = simulate(environment, partial(REDUCED, step_scale=scale), 100, 1, 7, runs=[4])
        np.testing.assert_array_equal(numbers(alone, 0), numbers(together, column))
    assert together.settings == {"estimator": "reduced_variance", "first_step_size": [0.8, 4.0]}


T, ARMS = 4096, 5
BOUNDS = {
    "tsallis_inf": 4 * math.sqrt(ARMS * T) + 1,
    "reduced_variance": 2 * math.sqrt(ARMS * T) + 14 * ARMS * math.log(T) + 16,
    "exp3": math.sqrt(2 * ARMS * T * math.log(ARMS)),
    "anytime": 2 * math.sqrt(ARMS * T * math.log(ARMS)),
    "exp3_p": 5.15 * math.sqrt(ARMS * T * math.log(ARMS)) + math.sqrt(ARMS * T / math.log(ARMS)),
}


def change():
    """Return losses of which the best arm of the first half is not the best of all rounds."""
    means = np.full((T, 1, 1, ARMS), 0.6)
    means[:, 0, 0, 0] = 0.4
    means[T // 2 :, 0, 0, 1] = 0.0
    return ArrayLosses(means, "bernoulli")


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(BernoulliLosses(0.1), id="stochastic"),
        pytest.param(change(), id="change", marks=pytest.mark.slow),
        pytest.param(HardLosses(0.5), id="hard", marks=pytest.mark.slow),
        pytest.param(SwitchingLosses(gap=0.3, n_switches=8), id="switching", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", BOUNDS)
def test_mean_regret_is_below_the_published_bound(name, losses):
    """32 runs of 4,096 rounds; bounds are for the expected regret. No mean comes nearer than 4 standard errors."""
    regret = simulate(Environment(bandit(ARMS), losses), EVERY[name], T, 32, 2023, checkpoints=[T]).regret[-1]
    print(f"{name}: {regret.mean():.0f} +- {regret.std(ddof=1) / math.sqrt(32):.1f} <= {BOUNDS[name]:.0f}")
    assert regret.mean() <= BOUNDS[name]


def test_mean_regret_of_ucb1_is_below_the_published_bound():
    gap = 0.1
    regret = simulate(Environment(bandit(ARMS), BernoulliLosses(gap)), UCB1, T, 32, 2023, checkpoints=[T]).regret[-1]
    assert regret.mean() <= (ARMS - 1) * (8 * math.log(T) / gap + (1 + math.pi**2 / 3) * gap)


def test_losses_made_against_ucb1_cost_it_all_and_tsallis_inf_little():
    """The arm that UCB1 is about to play loses 1, the others 0: it pays 500 and some arm at most 100."""
    n_rounds = 500
    opponent, losses = UCB1(problem(ARMS, n_rounds)), np.zeros((n_rounds, 1, 1, ARMS))
    for k in range(n_rounds):
        policy = opponent.act(k)
        arm = policy[0, 0].argmax(0)
        losses[k, 0, 0, arm] = 1.0
        opponent.learn(k, Arrivals((feedback(k, arm, np.ones(1), policy),)))
    environment = Environment(bandit(ARMS), losses)
    assert simulate(environment, UCB1, n_rounds).regret[-1, 0] >= 400
    for make in (TsallisINF, EXP3):
        assert simulate(environment, make, n_rounds, 8).regret[-1].mean() < 10


PROTOTYPE = {"tsallis_inf": (49, 119), "ucb1": (66, 200), "exp3": (61, 176)}
"""Mean regret of 8 runs of an independent prototype after 2^10 and 2^12 rounds: 5 arms, gap 0.1."""


@pytest.mark.parametrize("name", PROTOTYPE)
def test_regret_is_that_of_an_independent_prototype(name):
    """Means of 64 runs and of 8: three standard errors of their difference, 8 to 60 here; EXP3 is tuned to each K."""
    for K, expected in zip((2**10, 2**12), PROTOTYPE[name], strict=True):
        environment = Environment(bandit(5), BernoulliLosses(0.1))
        regret = simulate(environment, EVERY[name], K, 64, 2023, checkpoints=[K]).regret[-1]
        error = regret.std(ddof=1) * math.sqrt(1 / 64 + 1 / 8)
        print(f"{name}, {K}: {regret.mean():.1f} +- {regret.std(ddof=1) / 8:.1f}, prototype {expected}")
        assert abs(regret.mean() - expected) < 3 * error
