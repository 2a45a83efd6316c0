"""What POMD, OPPO, UCBVI and UCRL2 are optimistic with: bonuses by hand, bounds that hold, and the paper's regret."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from tabpo import Environment, TabularMDP, planning, simulate
from tabpo.environments import ArrayLosses
from tabpo.learners.empirical import transition_bonus
from tabpo.learners.oppo import OPPO
from tabpo.learners.pomd import POMD
from tabpo.learners.ucbvi import UCBVI
from tabpo.learners.ucrl2 import UCRL2
from tests.conftest import random_policy
from tests.optimistic_pieces import Watch, problem


def test_bonuses_of_mirror_descent_by_hand():
    """H = 2, S = 3, A = 2, K = 10, delta' = 0.3 / 3: ln(3 3 2 2 20 / 0.1) = ln 7200, ln(2 3 2 2 20 / 0.1) = ln 4800."""
    given = problem((2, 3, 2))
    learner = POMD(given, failure_probability=0.3, bonus_scale=0.5).inside
    learner.model.counts.visits[0, 0, 0] = 4
    learner.model.loss_counts[0, 0, 0] = 9.0
    bonus = learner.bonus()[..., 0]
    assert transition_bonus(given, np.array(4.0), 0.1) == pytest.approx(10.3238576)  # 2 sqrt(12 * 8.8818363 / 4)
    assert bonus[0, 0, 0] == pytest.approx(0.5 * (10.3238576 + 1.3724569))  # sqrt(2 * 8.4763712 / 9)
    assert bonus[1, 2, 1] == pytest.approx(0.5 * (20.6477152 + 4.1173708))  # never seen: n = 1
    assert learner.step_size[0] == pytest.approx(0.1861649)  # sqrt(2 * 0.6931472 / 40)
    assert OPPO(given).step_size[0] == learner.step_size[0]


def test_bonuses_of_ucbvi_by_hand():
    """H = S = A = 2, K = 5: X = 4, L = ln(5 4 2 10 / 0.1) = ln 4000 = 8.2940496."""
    visits, values = np.full((2, 2, 1), 4.0), np.array([[0.0], [1.0]])
    hoeffding = UCBVI(problem((2, 2, 2), n_episodes=5), bonus="hoeffding")
    bonus = hoeffding.bonus(0, visits, values, 0 * visits)
    np.testing.assert_allclose(bonus, 58.058347)  # 7 * 2 * L / 2
    learner = UCBVI(problem((2, 2, 2), n_episodes=5))
    learner.model.counts.visits[:] = 4
    learner.model.counts.transitions[0] = 2
    mean = learner.model.mean_next(0, values)
    np.testing.assert_allclose(mean, 0.5)
    # sqrt(8 L / 4 / 4) + 14 * 2 * L / 12 + sqrt(8 * 4 / 4)
    np.testing.assert_allclose(learner.bonus(0, visits, values, mean), 2.0364244 + 19.3527824 + 2.8284271)
    # Once N' is large the last term shrinks: 1e4 * 8 * 16 * 2 * L^2 / N' = 1.0 at N' = 2560000 * 68.7912588
    learner.model.counts.visits[1] = 88_052_811  # two actions
    np.testing.assert_allclose(learner.squared_gaps(1), 1.0, rtol=1e-7)
    np.testing.assert_allclose(learner.reward_bonus(), 4.0728490, rtol=1e-7)  # sqrt(2 L): no loss arrived
    learner.model.loss_counts[:] = 4.0
    np.testing.assert_allclose(learner.reward_bonus(), 2.0364244)
    assert not UCBVI(problem((2, 2, 2)), known_rewards=True).reward_bonus().any()


def test_radii_of_ucrl2_by_hand():
    """The least loss is the mean less sqrt(7 ln(2 S A t / delta) / (2 N)), here ln(2 2 2 5 / 0.1) = ln 400."""
    learner = UCRL2(problem((1, 2, 2)))
    learner.model.loss_sums[:], learner.model.loss_counts[:] = 900.0, 1000.0
    np.testing.assert_allclose(learner.lower_bounds(5), 0.9 - 0.1448107, rtol=1e-7)  # sqrt(7 * 5.9914645 / 2000)
    two = UCRL2(problem((2, 2, 2)), bonus_scale=[1.0])
    two.model.loss_sums[1, 0], two.model.loss_sums[1, 1], two.model.loss_counts[1] = 900.0, 0.0, 1000.0
    two.model.counts.visits[:], two.model.counts.transitions[0, :, :, 0] = 1000, 1000
    # p = (1, 0), values (0.7551893, 0): half of sqrt(28 ln(2 2 5 / 0.1) / 1000) = 0.3851661 moves to the second state
    np.testing.assert_allclose(two.lower_bounds(5)[0], 0.7551893 * (1 - 0.1925830), rtol=1e-6)


STEPS_LEFT = np.array([2, 1])[:, None, None, None]


def random_model(rng):
    return TabularMDP(rng.dirichlet(np.ones(2), (2, 2, 2)), np.array([1.0, 0.0]))


def optimal_values(mdp, means):
    """Return the optimal action values (2, S, A, 1)."""
    _, values = planning.best_response(mdp.transitions, means)
    return np.stack([means[0] + mdp.transitions[0] @ values[1], means[1]])[..., None]


def optimistic_losses(learner, means):
    """Return the losses less the bonus that a mirror descent puts into its values."""
    return (means[..., None] if isinstance(learner, OPPO) else learner.model.mean_losses) - learner.bonus()


def informed(learner, mdp, means, rng, n_runs):
    """Make a learner's model what it were, had every pair been visited between 10 and 10^6 times."""
    shape = (*means.shape, n_runs)
    visits = np.exp(rng.uniform(math.log(10), math.log(1e6), shape)).astype(np.int64)
    counts = rng.multinomial(visits, mdp.transitions[:, :, :, None])  # (H, S, A, R, S)
    counts[-1] = 0
    model = learner.model
    model.counts.visits[...], model.counts.transitions[...] = visits, np.moveaxis(counts, -1, 3)
    model.loss_sums[...] = rng.binomial(visits, means[..., None])
    model.loss_counts[...] = visits
    return learner


LEARNERS = {"ucrl2": UCRL2, "hoeffding": partial(UCBVI, bonus="hoeffding"), "bernstein": UCBVI}


@pytest.mark.parametrize("instance", range(3))
@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_optimism_after_many_visits(make, instance):
    """Independent samples of 200 runs, so many that the bounds say something: the truth is never outside.

    It is somewhere once the bounds are scaled down to a thousandth.
    """
    rng = np.random.default_rng(instance)
    mdp, means = random_model(rng), rng.random((2, 2, 2))
    optimal = optimal_values(mdp, means)
    for scale, optimistic in ((1.0, True), (0.001, False)):
        learner = informed(make(problem((2, 2, 2), 200, 10**6), bonus_scale=scale), mdp, means, rng, 200)
        least = learner.lower_bounds(t=10**7) if make is UCRL2 else STEPS_LEFT - learner.upper_bounds()
        assert ((optimal - least).min() > 0) == optimistic
        assert least[1].max() > 0.3  # a vacuous bound is at most 0


@pytest.mark.parametrize("make", [POMD, OPPO])
def test_optimism_about_any_policy_after_many_visits(make):
    rng = np.random.default_rng(3)
    mdp, means, policy = random_model(rng), rng.random((2, 2, 2)), random_policy(rng, 2, 2, 2, 200)
    learner = make(problem((2, 2, 2), 200, 10**6))
    learner = informed(getattr(learner, "inside", learner), mdp, means, rng, 200)
    truth, _ = planning.evaluate(mdp.transitions, means, policy)
    least = learner.model.optimistic_values(optimistic_losses(learner, means), policy)
    assert (least < truth).all()
    assert least[1].max() > 0.3


@pytest.mark.parametrize("instance", range(4))
@pytest.mark.parametrize("make", [*LEARNERS.values(), partial(UCBVI, known_rewards=True)], ids=[*LEARNERS, "known"])
def test_optimism_while_learning(make, instance):
    """delta = 0.1, 4 models of 50 runs each, every (h, s, a) and episode: the optimal values are never outside.

    The bounds leave much room: scaled down far enough, they fail somewhere.
    """
    rng = np.random.default_rng(instance)
    mdp, means = random_model(rng), rng.random((2, 2, 2))
    optimal = optimal_values(mdp, means)

    def least_room(learner, _):
        if isinstance(learner, UCRL2):
            return (optimal - learner.q_values).min()
        return (learner.q_values - (STEPS_LEFT - optimal)).min()

    environment = Environment(mdp, ArrayLosses(np.repeat(means[None], 400, 0), "bernoulli"), 3)
    for scale, optimistic in ((1.0, True), (0.001, False)):
        watch = Watch(partial(make, bonus_scale=scale), least_room)
        simulate(environment, watch, 400, 50, 8)
        assert len(watch.seen) == 400
        assert (min(watch.seen) > -1e-12) == optimistic


@pytest.mark.parametrize("make", [POMD, OPPO])
def test_optimism_about_the_policy_played(make):
    """The action values of the next step are at most those of the policy, in 200 runs at every episode."""
    rng = np.random.default_rng(5)
    mdp, means = random_model(rng), rng.random((2, 2, 2))

    def room(learner, policy):
        truth, _ = planning.evaluate(mdp.transitions, means, policy)
        return (truth - learner.model.optimistic_values(optimistic_losses(learner, means), policy)).min()

    def made(given, scale):
        learner = make(given, bonus_scale=scale, step_size=0.1)
        return getattr(learner, "inside", learner)

    environment = Environment(mdp, ArrayLosses(np.repeat(means[None], 300, 0), "bernoulli"), 3)
    for scale, optimistic in ((1.0, True), (0.001, False)):
        watch = Watch(partial(made, scale=scale), room)
        simulate(environment, watch, 300, 200, 8)
        assert (min(watch.seen) > -1e-12) == optimistic


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
def test_ucbvi_keeps_the_bound_of_its_paper(bonus):
    """Theorems 1 and 2 for X = H S states, T = H K; the lower-order term makes them large."""
    rng = np.random.default_rng(3)
    mdp = TabularMDP(rng.dirichlet(np.ones(2), (2, 2, 2)), np.array([1.0, 0.0]))
    n_episodes, x = 300, 4
    environment = Environment(mdp, rng.random((2, 2, 2)), 0)
    make = partial(UCBVI, bonus=bonus, known_rewards=True)
    regret = simulate(environment, make, n_episodes, 50, 3).regret[-1]
    log_term = math.log(5 * 2 * x * 2 * 2 * n_episodes / 0.1)
    lower_order = 4 * x**2 * 2 * log_term**2
    if bonus == "hoeffding":
        bound = 20 * 2**1.5 * log_term * math.sqrt(x * 2 * n_episodes) + 250 * lower_order
    else:
        bound = 60 * log_term * math.sqrt(x * 2 * n_episodes) + 2500 * lower_order
    assert regret.max() < bound
