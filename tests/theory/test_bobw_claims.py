"""Claims of best of both worlds: they hold, planted errors are found, what the specification had wrong stays wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tabpo import confidence
from tabpo.learners.best_of_both_worlds import LogBarrierPO, ShannonPO, TsallisPO
from tabpo.learners.protocol import Arrivals, Feedback, Problem
from tabpo.mdp import TabularMDP
from tabpo.theory import (
    CLAIMS,
    bobw,
    bobw_bonus,
    bobw_conditions,
    bobw_cover,
    bobw_estimator,
    bobw_ftrl,
    bobw_occupancy,
    bobw_rates,
    bobw_stability,
    bobw_sums,
    check,
)
from tabpo.theory.bobw_common import (
    Episode,
    confidence_set,
    distributions,
    others,
    q_values,
    quotient,
    relative,
    state_occupancy,
    vertex,
)

NAMES = [claim.name for claim in bobw.CLAIMS]


@pytest.mark.parametrize("name", NAMES)
def test_claims_hold(name):
    report = check(CLAIMS[name], n_instances=200, seed=11)
    assert report.holds, str(report)


# Planted errors: what replaces the sides of a claim. `quotient_of` has both sides before their division.


def quotient_of(left, right):
    return {"left": relative(lambda i: (left(i), right(i)))["left"]}


def exchanged(i):
    """L1 with mu^u and Q^u."""
    pi, u = i["policy"], i["other"]
    values = ("policy", "other")
    return [float((state_occupancy(i, x)[:, :, None] * (pi - u) * q_values(i, policy=x)).sum()) for x in values]


def undilated(i):
    return q_values(i, "bonus")


def least_dilated(i):
    B, _ = confidence.extended_evaluate(i["centre"], i["radius"], i["bonus"], i["policy"], False, 1 / len(i["policy"]))
    return np.asarray(B)


def regret_bound(i, power):
    H = len(i["policy"])
    local = float((state_occupancy(i, "other") * bobw_bonus.least_local_regret(i)).sum())
    return local + (1 + 1 / H) ** power * bobw_bonus._expected(i, "bonus")


def unshifted(i, power):
    """E sum_a pi^power Qhat^2: without x = 1(s) L / d the factor (1 - pi) is lost."""
    moments = bobw_estimator._Moments(i)
    inverse = bobw_estimator._inverse(moments.policy)
    return moments._total(moments.shifted**2 * (moments.played * inverse ** (2 - power)).sum(-1))


def everything(i):
    """E 1(s, a) L^2: zeta without the shift."""
    moments = bobw_estimator._Moments(i)
    return moments._total(moments.played * moments.episode.to_go[..., None] ** 2)


def bonus_without_others(i):
    """<pi, b^bias> with the factor (1 - pi) dropped."""
    H = len(i["policy"])
    share = (i["upper"] - i["lower"] + i["exploration"]) / i["denominator"]
    return (np.arange(H, 0, -1.0)[:, None] * share)[:, :, None]


def bonus_for_gamma_alone(i):
    bonus = bobw_estimator.bias_bonus(i["policy"], i["upper"], i["upper"], i["exploration"])
    return (i["other"] * bonus).sum(2)


def empirical_occupancy(i):
    return np.stack([state_occupancy({**i, "transitions": i["centre"]})] * 4)


def carried_by_the_member(i):
    return bobw_occupancy._difference_by_steps({**i, "vertex": i["transitions"]})


def bound_with(of_z):
    return relative(lambda i: bobw_stability.against(i, of_z))


def without_penalty(i):
    gains, rounding = bobw_ftrl.stability(
        bobw_ftrl.REGULARIZERS[i["kind"]], bobw_ftrl._leaders(i), i["losses"], i["step_sizes"][1:]
    )
    return np.full(len(i["comparators"]), (gains + rounding).sum() * i["step_sizes"].min())


def at_another_leader(i):
    """Stab with another step size."""
    psi, pi, eta = bobw_ftrl.REGULARIZERS[i["kind"]], i["policy"], i["step_size"]
    after = np.asarray(psi.leader(i["losses"] - psi.gradient(pi) / (2 * eta), 2 * eta))
    return float((((pi - after) * i["losses"]) - psi.divergence(after, pi) / eta).sum() * eta.min()) * np.ones(8)


def whole_split(i):
    return bobw_ftrl.stab(i, "both")[0], bobw_ftrl.stab(i)[0] + bobw_ftrl.stab(i, "extra")[0]


def exactly_with_half_the_exponent(i):
    gain, rounding = bobw_ftrl.stab(i)
    exact = bobw_stability._shannon_exactly({**i, "step_size": i["step_size"] / 2})
    return abs(gain - exact), 1e-9 * exact + rounding


def spread_without_others(i):
    """xi = sum sqrt(pi), the factor (1 - pi) dropped, against 2 sum_{a != a'} sqrt(pi_a)."""
    roots = np.sqrt(i["policy"])
    return float(roots.sum()), 2 * float(others(roots).min())


def entropy_without_the_one(i):
    pi = i["policy"]
    y = others(pi)
    return float(bobw_sums.entropy(pi)), float((y * np.log(max(len(pi) - 1, 1) / np.maximum(y, 1e-300))).min())


def unmixed_penalty(i):
    with np.errstate(divide="ignore"):
        penalties = np.log(i["policy"]) - np.log(i["others"])
    return penalties, np.full(penalties.shape, 3 * np.log(i["n_episodes"] * len(i["policy"])))


def sum_of_shannon_without_the_log(i):
    total, bound = bobw_sums._shannon_sum(i)
    T = len(i["w"])
    return total, bound / (1 + np.log(2 * T * (1 + T / i["offset"])))


def unweighted_tsallis(i):
    """The rate of section 2.4 without 1 / d: beta_t = c_0 + c_1 H sqrt(t), at t = 100."""
    H, _, A = i["policy"].shape
    one = np.ones(i["denominator"].shape)
    rate, increase = bobw_rates.tsallis_rate(i["first_rate"], i["c_1"], H, 99 * one, one)
    small = 1 / (rate * i["denominator"]) <= 1 / (4 * H)
    share = np.where(small, 8 * bobw_estimator.xi(i["policy"]), 4 * np.sqrt(A)) / i["c_1"] ** 2
    return bobw_cover._expected({**i, "step_size": 1 / rate}, "tsallis", increase * share)


def termwise_shannon(i):
    """Claim that 4 (beta_t - beta_{t-1}) Ent_t pays for the stability of episode t, in the first episode of c_0 = 0."""
    H, _, A = i["policy"].shape
    w = 1 / i["denominator"]
    nothing = np.zeros(w.shape)
    increase, _, _, _ = bobw_rates.shannon_bonus(H, 10.0, (nothing, nothing), np.full((*w.shape, max(A, 2)), 1 / A), w)
    i = {**i, "step_size": 1 / increase}
    return bobw_cover._expected(i, "shannon", 4 * increase * bobw_sums.entropy(i["policy"]))


def log_barrier_without_the_square(i):
    """2 sum_a eta zeta / d: one weight 1 / d lost."""
    gain, bound = bobw_cover._log_barrier_cover(i)
    at = (np.arange(len(i["policy"]))[:, None], Episode.of(i).states)
    return gain, bound * i["denominator"][at]


def penalty_alone(i):
    gain, _ = bobw_cover._tsallis_payment(i)
    H = len(i["policy"])
    _, increase = bobw_rates.tsallis_rate(i["first_rate"], i["c_1"], H, i["before"], 1 / i["denominator"])
    return gain, increase * 2 * bobw_estimator.xi(i["policy"])


def unmixed_payment(i):
    """The comparator all but at the border: 1e-180 of the uniform distribution at T = 10^6."""
    return bobw_cover._log_barrier_payment(i, power=30.0)


def at_half_of_the_horizon(i):
    gain, bound = bobw_cover._against_bonus(i)
    return gain, bound / 2


def spec_virtual_bound(i):
    growth = np.log(i["rates"] / i["first"])
    return float((i["factor"] * growth + 1).sum())


PLANTED = {
    "bobw_value_difference": {"right": exchanged},
    "bobw_dilated_identity": {
        "left": lambda i: bobw_bonus._drift(i, undilated(i)),
        "right": lambda i: bobw_bonus._drift_identity(i, undilated(i)),
    },
    "bobw_dilated_value": {"left": lambda i: bobw_bonus._at_start(i, undilated(i))},
    "bobw_dilated_bound": {
        "right": lambda i: bobw_bonus._dilated_bound(i) / (1 + 1 / len(i["policy"])),
    },
    "bobw_dilated_identity_over_set": {
        "left": lambda i: bobw_bonus._drift(i, least_dilated(i)),
        "right": lambda i: bobw_bonus._drift_identity(i, least_dilated(i)),
    },
    "bobw_dilated_bound_over_set": {
        "right": lambda i: bobw_bonus._dilated_bound_over_set({**i, "upper": i["lower"]}),
    },
    "bobw_dilated_regret": {"right": lambda i: regret_bound(i, 1)},
    "bobw_corruption": {
        "left": lambda i: (
            bobw_bonus._gap_sum(i) + np.abs(i["losses"] - i["stationary"][..., None]).max((1, 2)).sum() * 2
        )
    },
    "bobw_estimator": {
        "right": lambda i: bobw_estimator._stated_means({**i, "denominator": state_occupancy(i)}),
    },
    "bobw_zeta": quotient_of(everything, bobw_estimator._zeta_bound),
    "bobw_tsallis_variance": quotient_of(
        lambda i: unshifted(i, 1.5), lambda i: bobw_estimator._square_bound(i) * bobw_estimator.xi(i["policy"])
    ),
    "bobw_shannon_variance": quotient_of(lambda i: unshifted(i, 1.0), bobw_estimator._square_bound),
    "bobw_bias": {"right": lambda i: float(i["most"] * (i["policy"] @ others(i["policy"])))},
    "bobw_bias_bonus": {"right": bonus_for_gamma_alone},
    "bobw_bias_bonus_cost": quotient_of(bonus_without_others, bobw_estimator._cost_against_any_action),
    "bobw_occupancy_bounds": {"right": empirical_occupancy},
    "bobw_occupancy_difference": {"right": carried_by_the_member},
    "bobw_upper_occupancy": {"left": lambda i: 2 * bobw_occupancy._share_of_an_episode(i)},
    "bobw_ftrl": {"right": without_penalty},
    "bobw_stability_is_largest": {"right": at_another_leader},
    "bobw_half_split": relative(whole_split),
    "bobw_tsallis_stability": bound_with(lambda z: z**2),
    "bobw_tsallis_stability_bounded": bound_with(lambda z: z**2),
    "bobw_tsallis_stability_positive": bound_with(lambda z: z**2 / 2),
    "bobw_power_stability_positive": relative(
        lambda i: (bobw_ftrl.stab(i)[0], i["q"] * bobw_stability.against(i, lambda z: z**2 / 2)[1])
    ),
    "bobw_log_barrier_stability": bound_with(lambda z: z**2 / 2),
    "bobw_log_barrier_stability_bounded": bound_with(lambda z: z**2 / 2),
    "bobw_log_barrier_stability_positive": bound_with(lambda z: z**2 / 4),
    "bobw_shannon_stability": bound_with(lambda z: z**2 / 2),
    "bobw_shannon_stability_bounded": bound_with(lambda z: z**2 / 2),
    "bobw_shannon_stability_positive": bound_with(lambda z: z**2 / 4),
    "bobw_shannon_exactly": relative(exactly_with_half_the_exponent),
    "bobw_tsallis_penalty": relative(spread_without_others),
    "bobw_shannon_penalty": relative(entropy_without_the_one),
    "bobw_log_barrier_penalty": relative(unmixed_penalty),
    "bobw_log_sum": relative(lambda i: (bobw_sums._log_sum(i)[0], bobw_sums._log_sum(i)[1] - 1)),
    "bobw_self_bounding": relative(lambda i: (i["regret"], bobw_sums._self_bounding({**i, "corruption": 0.0})[1])),
    "bobw_count_sum": relative(lambda i: (bobw_sums._expected_count_sum(i), 1 + np.log(len(i["visit"])))),
    "bobw_shannon_sum": relative(sum_of_shannon_without_the_log),
    "bobw_log_barrier_sum": relative(
        lambda i: (bobw_sums._log_barrier_sum(i)[0], bobw_sums._log_barrier_sum(i)[1] / 2)
    ),
    "bobw_virtual_episodes": relative(lambda i: (i["count"], spec_virtual_bound(i))),
    "bobw_bonus_stability": relative(at_half_of_the_horizon),
    "bobw_tsallis_cover": relative(unweighted_tsallis),
    "bobw_shannon_cover": relative(termwise_shannon),
    "bobw_log_barrier_cover": relative(log_barrier_without_the_square),
    "bobw_tsallis_bonus": relative(penalty_alone),
    "bobw_log_barrier_bonus": relative(unmixed_payment),
    "bobw_tsallis_regret": {"right": lambda i: 0.4},
    "bobw_shannon_regret": {"right": lambda i: 0.8},
}
"""The factor (1 - pi_t) dropped (`zeta`, `tsallis_variance`, `bias_bonus_cost`, `tsallis_penalty`), the weight 1 / d_t
lost (`tsallis_cover`), Shannon's stability claimed term by term (`shannon_cover`), the log-barrier's comparator not
mixed with the uniform distribution (`log_barrier_penalty`, `log_barrier_bonus`), and others."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found(name):
    report = check(replace(CLAIMS[name], **PLANTED[name]), n_instances=300, seed=11)
    assert report.violations > 0, str(report)
    if report.claim.kind == "<=":
        assert report.worst_left > report.worst_right


@pytest.mark.parametrize("kind", ["tsallis", "shannon"])
def test_small_constants_violate_the_condition(kind, monkeypatch):
    monkeypatch.setattr(bobw_rates, "constants", lambda *sizes: bobw_rates.Constants(1.0, 1.0))
    assert check(CLAIMS[f"bobw_{kind}_condition"], n_instances=200, seed=11).violations > 0


def test_the_log_barrier_needs_its_virtual_episodes():
    """Real episodes where eta / d is as large as it likes."""
    claim = CLAIMS["bobw_log_barrier_condition"]
    unstable = replace(claim, draw=partial(bobw_conditions._log_barrier_state, virtual=True))
    assert check(unstable, n_instances=200, seed=11).violations > 0


def test_virtual_episodes_need_a_small_factor(monkeypatch):
    """A virtual episode that doubles the rate instead of multiplying it by 1 + 1 / (66 H ln T)."""
    gentle = bobw_rates.virtual_increase
    monkeypatch.setattr(
        bobw_rates, "virtual_increase", lambda rate, d, H, T, most: 66 * H * np.log(T) * gentle(rate, d, H, T, most)
    )
    assert check(CLAIMS["bobw_virtual_condition"], n_instances=200, seed=11).violations > 0


def test_every_claim_has_a_planted_error():
    conditions = {name for name in NAMES if name.endswith("_condition")}
    assert len(conditions) == 4
    assert set(PLANTED) | conditions == set(NAMES)


# What the specification had otherwise


def test_the_condition_of_the_log_barrier_is_not_enough_for_one_step():
    """L15 at H = 1, 2 H eta pi B = 1: Stab(-B) with psi / 2 is of the order ln(1 / pi) <pi, B>; at 1 / 2 it holds."""
    pi, eta = np.array([1e-6, 1 - 1e-6]), np.ones(2)
    B = np.array([1 / (2 * pi[0]), 0.0])
    assert bobw_rates.condition("log_barrier", 1, eta, pi, B).max() == pytest.approx(1)
    gains = [bobw_ftrl.stability(bobw_ftrl.REGULARIZERS["log_barrier"], pi, -x, 2 * eta)[0] for x in (B, B / 2)]
    assert gains[0] > 10 * pi @ B
    assert gains[1] < pi @ B / 2


def test_more_virtual_episodes_than_the_specification_says():
    """One hard state, T = 20: 1 / eta grows from 21 to 21 (1 + T) by factors of 1 + 1 / (66 ln T)."""
    factor, growth = 66 * np.log(20), np.log(21)
    count = int(np.ceil(growth / np.log1p(1 / factor)))
    grown = count * np.log1p(1 / factor)
    assert factor * grown + 1 < count <= (factor + 1) * grown


def test_actions_that_are_never_played_have_no_estimate():
    """E Qhat = (mu / d) Q needs pi > 0: Shannon's leader can underflow to 0."""
    claim = CLAIMS["bobw_estimator"]
    assert not check(replace(claim, draw=bobw_estimator._episode), n_instances=100, seed=11).holds


# The instances, and the formulas that claims compare with


def test_distributions(rng):
    positive, any_ = distributions(rng, (2000,), 4), distributions(rng, (2000,), 4, zeros=True)
    for drawn in (positive, any_):
        np.testing.assert_allclose(drawn.sum(1), 1, atol=1e-14)
        assert (drawn.max(1) - drawn.min(1) == 0).any()
        assert (np.sort(drawn)[:, -2] < 1e-6).any()
    assert positive.min() > 1e-13
    assert (positive < 2e-12).any()
    assert (any_ == 0).any()


def test_vertices_and_members_are_in_their_sets(rng):
    for _ in range(100):
        i = confidence_set(rng, 2, 3, 2)
        for inside in (i["transitions"], vertex(rng, i["centre"], i["radius"])):
            np.testing.assert_allclose(inside.sum(3), 1, atol=1e-14)
            assert (np.abs(inside - i["centre"]) <= i["radius"] + 1e-14).all()
            assert (inside >= 0).all()


def test_quotients():
    np.testing.assert_array_equal(quotient([2.0, 0.0, -1.0], [4.0, 0.0, 0.0]), [0.5, 0.0, 0.0])
    assert quotient(1.0, 0.0) == np.finfo(np.float64).max
    assert np.isnan(quotient(np.nan, 0.0))


@pytest.mark.parametrize("kind", ["tsallis", "shannon", "log_barrier", "power"])
def test_stability_by_a_search_over_two_actions(kind, rng):
    """The largest <pi - p, c> - D(p, pi), D from phi and its gradient."""
    for _ in range(30):
        psi = bobw_ftrl.regularizer(kind, float(rng.uniform(0.2, 0.8)))
        pi, c, eta = rng.dirichlet(np.ones(2)), rng.normal(size=2), np.full(1, rng.uniform(0.2, 5))

        def loss(x, psi=psi, pi=pi, c=c, eta=eta):
            p = np.array([x, 1 - x])
            divergence = psi.phi(p) - psi.phi(pi) - psi.gradient(pi) * (p - pi)
            return float(((p - pi) * c + divergence / eta).sum())

        best = minimize_scalar(loss, bounds=(1e-12, 1 - 1e-12), method="bounded", options={"xatol": 1e-12})
        gain, _ = bobw_ftrl.stability(psi, pi, c, eta)
        assert gain == pytest.approx(-best.fun, rel=1e-6, abs=1e-10)


class Recorder:
    """A learner's model that notes the bonuses whose values it is asked for."""

    def __init__(self, model):
        self.model, self.bonuses = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def bonus_values(self, bonus, *rest):
        self.bonuses.append(np.array(bonus))
        return self.model.bonus_values(bonus, *rest)


@pytest.mark.parametrize("kind", ["tsallis", "shannon", "log_barrier"])
def test_the_learners_have_these_bonuses(kind, rng):
    """Rates small enough for the policies to move; known transitions, six episodes, two runs."""
    H, S, A, T, R, offset, first_rate = 3, 2, 3, 6, 2, 2.0, 30.0
    mdp = TabularMDP(rng.dirichlet(np.ones(S), (H, S, A)), np.eye(S)[0])
    learner_class = {"tsallis": TsallisPO, "shannon": ShannonPO, "log_barrier": LogBarrierPO}[kind]
    more = {"virtual_episodes": False} if kind == "log_barrier" else {}
    learner = learner_class(Problem(mdp, T, R, 0, 0), exploration=offset, initial_rate=first_rate, **more)
    learner.model = recorder = Recorder(learner.model)
    X, Y, M = np.zeros((3, H, S, R))
    rate = np.full((H, S, A, R), first_rate)
    h, r = np.ogrid[:H, :R]
    for t in range(T):
        policy = np.array(learner.act(t))
        by_action = np.moveaxis(policy, 2, -1)
        mu = state_occupancy({"transitions": mdp.transitions, "initial": mdp.initial, "policy": policy})
        gamma = offset / (offset + t + 1)
        s, a, losses = rng.integers(0, S, (H, R)), rng.integers(0, A, (H, R)), rng.random((H, R))
        learner.learn(t, Arrivals((Feedback(t, s, a, losses, policy, mu, learner.notes(t)),)))
        w = 1 / (mu + gamma)
        if kind == "tsallis":
            beta, increase = bobw_rates.tsallis_rate(first_rate, 2.0, H, X, w)
            regular = bobw_rates.tsallis_bonus(beta, increase, 2.0, H, by_action, w)
            X = X + w
        elif kind == "shannon":
            _, regular, Y, M = bobw_rates.shannon_bonus(H, bobw_rates.log_term(T, offset), (Y, M), by_action, w)
        else:
            to_go = np.cumsum(losses[::-1], axis=0)[::-1]
            zeta = ((np.eye(A)[a] - by_action[h, s, r]) * to_go[..., None]) ** 2
            increase = bobw_rates.log_barrier_increase(rate[h, s, :, r], zeta, 1 / w[h, s, r][..., None], T)
            rate[h, s, :, r] += increase
            regular = np.zeros((H, S, R))
            regular[h, s, r] = bobw_rates.log_barrier_bonus(increase, T)
        for run in range(R):
            bias = bobw_estimator.bias_bonus(by_action[:, :, run], mu[..., run], mu[..., run], gamma)
            expected = regular[:, :, None, run] + bias
            np.testing.assert_allclose(recorder.bonuses[-1][..., run], expected, rtol=1e-11, atol=1e-13)
