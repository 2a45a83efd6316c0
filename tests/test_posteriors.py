"""Posteriors against golden values, exact arithmetic, integration on a grid, and closed-form laws of their draws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tabpo.errors import InvalidInputError
from tabpo.posteriors import Dirichlet, NormalGamma, NormalGammaParameters
from tabpo.streams import Purpose, stream
from tests.conftest import golden

GOLDEN = golden("posteriors")
S, A = 3, 2


def streams(n_runs, seed=0):
    return [stream(seed, Purpose.LEARNER, run) for run in range(n_runs)]


def observations(rng, shape):
    """Indices (s, a, next_s) and rewards, so few cells that many occur several times."""
    return rng.integers(S, size=shape), rng.integers(A, size=shape), rng.integers(S, size=shape), rng.normal(size=shape)


# --- posterior parameters -------------------------------------------------------------------------------------------


def test_golden_normal_gamma():
    cases = [case for case in GOLDEN["cases"] if case["kind"] == "normal_gamma"]
    assert len(cases) == 4
    for case in cases:
        names = ("mean", "precision_count", "shape", "rate")
        posterior = NormalGamma((), **dict(zip(names, case["prior"], strict=True)))
        posterior.update(case["data"])
        np.testing.assert_allclose(posterior.parameters(), case["posterior"], rtol=GOLDEN["tolerance"], atol=0)
        assert posterior.variance() == pytest.approx(case["mean_variance"], rel=GOLDEN["tolerance"])
        assert posterior.mean() == posterior.parameters().mean


def test_golden_dirichlet():
    (case,) = [case for case in GOLDEN["cases"] if case["kind"] == "dirichlet"]
    counts = np.array(case["counts"])
    posterior = Dirichlet(counts.shape[:-1], counts.shape[-1], concentration=case["concentration"])
    posterior.update(*(np.repeat(index, counts.reshape(-1)) for index in np.indices(counts.shape).reshape(3, -1)))
    np.testing.assert_array_equal(posterior.counts(), counts)
    np.testing.assert_array_equal(posterior.concentration(), counts + case["concentration"])
    np.testing.assert_allclose(posterior.mean(), case["mean"], rtol=GOLDEN["tolerance"])
    np.testing.assert_allclose(posterior.variance(), case["variance"], rtol=GOLDEN["tolerance"])


def test_normal_gamma_is_the_posterior(rng):
    """Its moments are those of prior times likelihood, integrated over (mu, ln tau) on a grid (1e-6 by its steps)."""
    prior, data = (0.3, 1.5, 2.5, 1.2), rng.normal(1.0, 2.0, 6)
    mu, log_tau = np.linspace(-6, 8, 1401)[:, None], np.linspace(-9, 4, 1301)
    tau = np.exp(log_tau)
    density = stats.gamma.logpdf(tau, prior[2], scale=1 / prior[3]) + log_tau
    density = density + stats.norm.logpdf(mu, prior[0], 1 / np.sqrt(prior[1] * tau))
    density = density + sum(stats.norm.logpdf(x, mu, 1 / np.sqrt(tau)) for x in data)
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    posterior = NormalGamma((), mean=prior[0], precision_count=prior[1], shape=prior[2], rate=prior[3])
    posterior.update(data)
    mean, _, shape, rate = posterior.parameters()
    assert (weights * mu).sum() == pytest.approx(mean, abs=1e-6)
    assert (weights * (mu - mean) ** 2).sum() == pytest.approx(posterior.variance(), rel=1e-4)  # tails beyond the grid
    assert (weights * tau).sum() == pytest.approx(shape / rate, rel=1e-6)
    assert (weights * (tau - shape / rate) ** 2).sum() == pytest.approx(shape / rate**2, rel=1e-6)


def test_dirichlet_is_the_posterior():
    """Two outcomes: prior times likelihood on a grid."""
    posterior = Dirichlet((), 2, concentration=[1.5, 2.5])
    posterior.update([0, 1, 0, 0, 1])
    p = (np.arange(200000) + 0.5) / 200000
    weights = p ** (0.5 + 3) * (1 - p) ** (1.5 + 2)
    weights /= weights.sum()
    assert (weights * p).sum() == pytest.approx(posterior.mean()[0], rel=1e-9)
    assert (weights * (p - posterior.mean()[0]) ** 2).sum() == pytest.approx(posterior.variance()[0], rel=1e-8)


def exact(prior, data):
    """Return the parameters in rational arithmetic, rounded once."""
    mean, count, shape, rate = map(Fraction, prior)
    values = [Fraction(float(x)) for x in data]
    for x in values:
        rate += count * (x - mean) ** 2 / (2 * (count + 1))
        mean = (count * mean + x) / (count + 1)
        count, shape = count + 1, shape + Fraction(1, 2)
    return [float(x) for x in (mean, count, shape, rate)]


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e12])
@pytest.mark.parametrize("prior", [(0.0, 4.0, 3.0, 3.0), (1e8, 1.0, 1.0, 1e-6), (0.0, 1e-30, 1.0, 1e-3)])
def test_updates_are_exact_in_any_batches(offset, prior, rng):
    """Whole, one by one, in uneven batches, backwards: 1e-12 of the exact values, though offsets are 1e12 deviations.

    With a prior mean of no weight, what is left of the offset in the rate is the sum of squared deviations alone.
    """
    data = offset + rng.normal(size=60)
    expected = exact(prior, data)
    for batches in ([data], [*data], [data[:1], data[1:7], data[7:7], data[7:]], [*data[::-1]]):
        posterior = NormalGamma((), mean=prior[0], precision_count=prior[1], shape=prior[2], rate=prior[3])
        for batch in batches:
            posterior.update(batch)
        np.testing.assert_allclose(posterior.parameters(), expected, rtol=1e-12)
        assert posterior.counts() == 60


def test_one_observation_at_a_time_by_the_parameters(rng):
    parameters, posterior = NormalGamma(()).parameters(), NormalGamma(())
    for value in rng.normal(2, 5, 20):
        parameters = parameters.after(value)
        posterior.update(value)
        np.testing.assert_allclose(parameters, posterior.parameters(), rtol=1e-13)
    several = parameters.after(np.zeros((4, 1)))
    assert {array.shape for array in several} == {(4, 1)}


def test_steps_of_all_runs_equal_a_batch_and_runs_apart(rng):
    R, T = 5, 40
    s, a, t, r = observations(rng, (T, R))
    by_step, at_once = (
        (Dirichlet((S, A), S, R), NormalGamma((S, A, S), R)),
        (Dirichlet((S, A), S, R), NormalGamma((S, A, S), R)),
    )
    for k in range(T):
        by_step[0].update(s[k], a[k], t[k])
        by_step[1].update(s[k], a[k], t[k], r[k])
    at_once[0].update(s, a, t)
    at_once[1].update(s, a, t, r)
    assert by_step[0].counts().sum() == by_step[1].counts().sum() == T * R
    np.testing.assert_array_equal(by_step[0].counts(), at_once[0].counts())
    np.testing.assert_allclose(by_step[1].parameters(), at_once[1].parameters(), rtol=1e-13)
    for run in range(R):
        transitions, rewards = Dirichlet((S, A), S), NormalGamma((S, A, S))
        for k in range(T):
            transitions.update(s[k, run], a[k, run], t[k, run])
            rewards.update(s[k, run], a[k, run], t[k, run], r[k, run])
        np.testing.assert_array_equal(transitions.mean(), by_step[0].mean()[..., run])
        np.testing.assert_array_equal(transitions.variance(), by_step[0].variance()[..., run])
        np.testing.assert_array_equal(rewards.parameters(), np.array(by_step[1].parameters())[..., run])
        for cell in np.ndindex(S, A, S):
            own = r[:, run][(s[:, run] == cell[0]) & (a[:, run] == cell[1]) & (t[:, run] == cell[2])]
            assert rewards.counts()[cell] == len(own)
            np.testing.assert_allclose([p[cell] for p in rewards.parameters()], exact((0, 4, 3, 3), own), rtol=1e-13)


def test_settings_may_be_arrays(rng):
    """One prior per run, or per outcome; each as by itself."""
    strengths = np.array([0.5, 1.0, 4.0])
    transitions = Dirichlet((S, A), S, 3, concentration=strengths)
    rewards = NormalGamma((S, A, S), 3, mean=strengths, rate=2 * strengths)
    s, a, t, r = observations(rng, (10, 3))
    transitions.update(s, a, t)
    rewards.update(s, a, t, r)
    for run, strength in enumerate(strengths):
        alone = Dirichlet((S, A), S, concentration=strength)
        alone.update(s[:, run], a[:, run], t[:, run])
        np.testing.assert_array_equal(alone.mean(), transitions.mean()[..., run])
        alone = NormalGamma((S, A, S), mean=strength, rate=2 * strength)
        alone.update(s[:, run], a[:, run], t[:, run], r[:, run])
        np.testing.assert_array_equal(alone.parameters(), np.array(rewards.parameters())[..., run])
    by_outcome = Dirichlet((S, A), S, 2, concentration=[[1.0], [2.0], [5.0]])
    np.testing.assert_allclose(by_outcome.mean()[1, 0, :, 1], [1 / 8, 2 / 8, 5 / 8])


def test_what_is_returned_is_a_copy():
    transitions, rewards = Dirichlet(S, S, 2), NormalGamma(S, 2)
    for array in (transitions.counts(), transitions.concentration(), rewards.counts(), *rewards.parameters()):
        array[...] = 77
    assert transitions.counts().max() == rewards.counts().max() == 0
    assert transitions.concentration().max() == 1
    np.testing.assert_array_equal(np.array(rewards.parameters())[:, 0, 0], [0, 4, 3, 3])


# --- laws of the draws ----------------------------------------------------------------------------------------------

# Seeded. Moments must lie within 5 standard errors (each fails by chance once in 10^6), Kolmogorov-Smirnov p-values
# above 1e-4. With N = 40000 an error of 4 % in a standard deviation, or of 2 % in a distribution function, is found
# with near certainty.
N = 40000


def within(samples, mean, variance):
    """Means and variances along axis 0 are within 5 standard errors."""
    n = len(samples)
    assert (np.abs(samples.mean(0) - mean) <= 5 * np.sqrt(variance / n)).all()
    squares = (samples - mean) ** 2
    error = 5 * squares.std(0) / np.sqrt(n)
    assert (np.abs(squares.mean(0) - variance) <= error).all()


def test_moments_of_dirichlet_draws(rng):
    posterior = Dirichlet((S, A), 4, concentration=0.4)
    posterior.update(rng.integers(S, size=30), rng.integers(A, size=30), rng.integers(4, size=30))
    draws = posterior.sample(N, np.random.default_rng(5))
    np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-14)
    within(draws, posterior.mean(), posterior.variance())
    alpha, total = posterior.concentration(), posterior.concentration().sum(-1)
    products = draws[..., 0] * draws[..., 1]  # E p_0 p_1 = alpha_0 alpha_1 / (total (total + 1))
    expected = alpha[..., 0] * alpha[..., 1] / (total * (total + 1))
    assert (np.abs(products.mean(0) - expected) <= 5 * products.std(0) / np.sqrt(N)).all()


@pytest.mark.parametrize("alpha", [[5.0, 1.0, 30.0], [0.05, 0.3, 0.02], [1.0, 0.5, 1.5]])
def test_marginals_of_dirichlet_draws_are_beta(alpha):
    draws = Dirichlet((), 3, concentration=alpha).sample(N, np.random.default_rng(6))
    for i in range(3):
        law = stats.beta(alpha[i], sum(alpha) - alpha[i])
        # below 1e-12 the float64 nearest to 1 - p is 1: compared at points that both sides resolve
        points = np.array([1e-12, 1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
        share, expected = (draws[:, i, None] <= points).mean(0), law.cdf(points)
        assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / N) + 1e-12).all()
    if min(alpha) >= 1:
        assert stats.kstest(draws[:, 0], stats.beta(alpha[0], sum(alpha) - alpha[0]).cdf).pvalue > 1e-4


def test_tiny_concentrations_give_deterministic_draws():
    """At 1e-3 four plain Gamma variables would all underflow in 1 of 20 draws; which outcome wins is uniform."""
    for concentration in (1e-3, 1e-6, 1e-50):
        draws = Dirichlet((2, 3), 4, concentration=concentration).sample(2000, np.random.default_rng(7))
        assert np.isfinite(draws).all()
        np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-15)
        assert (draws.max(-1) > 0.99).mean() > 0.97
        assert stats.chisquare(np.bincount(draws.argmax(-1).reshape(-1))).pvalue > 1e-4
    mixed = Dirichlet((), 3, concentration=[1e-50, 1e-50, 1e50]).sample(5, np.random.default_rng(8))
    np.testing.assert_allclose(mixed, [[0, 0, 1]] * 5, atol=1e-40)


def test_moments_of_normal_gamma_draws(rng):
    posterior = NormalGamma((S, A))
    posterior.update(rng.integers(S, size=40), rng.integers(A, size=40), rng.normal(1.0, 2.0, 40))
    mean, count, shape, rate = posterior.parameters()
    mu, tau = posterior.sample_with_precisions(N, np.random.default_rng(9))
    within(mu, mean, rate / (count * (shape - 1)))
    np.testing.assert_allclose(posterior.variance(), rate / (count * (shape - 1)), rtol=1e-14)
    within(tau, shape / rate, shape / rate**2)
    within((mu - mean) * np.sqrt(count * tau), 0.0, 1.0)  # given tau, mu is normal


def test_laws_of_normal_gamma_draws(rng):
    posterior = NormalGamma((), mean=1.0, precision_count=0.7, shape=1.2, rate=5.0)
    posterior.update(rng.normal(size=3))
    parameters = posterior.parameters()
    generator = np.random.default_rng(10)
    mu, tau = posterior.sample_with_precisions(N, generator)
    degrees, location, scale = parameters.marginal()
    assert stats.kstest(mu, stats.t(degrees, location, scale).cdf).pvalue > 1e-4
    assert stats.kstest(tau, stats.gamma(parameters.shape, scale=1 / parameters.rate).cdf).pvalue > 1e-4
    following = mu + generator.standard_normal(N) / np.sqrt(tau)
    assert stats.kstest(following, stats.t(*parameters.predictive()).cdf).pvalue > 1e-4
    assert stats.kstest(following, stats.t(*parameters.marginal()).cdf).pvalue < 1e-6  # power: the wrong law fails


def test_variance_without_a_finite_one():
    assert NormalGamma((), shape=1.0).variance() == np.inf
    assert NormalGamma((), shape=0.3).variance() == np.inf
    table = NormalGamma(2, shape=[0.8, 3.0])
    table.update([0], [1.0])
    assert np.isfinite(table.variance()).all()


def test_moments_of_the_marginal_are_those_of_the_law():
    for law in (NormalGamma(()).parameters(), NormalGammaParameters(*map(np.array, (2.0, 0.5, 6.0, 7.0)))):
        assert stats.t(*law.marginal()).var() == pytest.approx(law.variance(), rel=1e-12)
        total = law.rate / (law.shape - 1) + law.variance()  # E 1 / tau and Var mu
        assert stats.t(*law.predictive()).var() == pytest.approx(total, rel=1e-12)


# --- runs and streams -----------------------------------------------------------------------------------------------


def both(n_runs, rng, runs=None):
    """Return posteriors with the observations of some of ``n_runs`` runs; the last run's prior is below 1."""
    s, a, t, r = observations(rng, (25, n_runs))
    runs = list(range(n_runs)) if runs is None else runs
    strengths = np.where(np.arange(n_runs) == n_runs - 1, 0.01, 1.0)[runs]
    transitions = Dirichlet((S, A), S, len(runs), concentration=strengths)
    rewards = NormalGamma((S, A, S), len(runs))
    transitions.update(s[:, runs], a[:, runs], t[:, runs])
    rewards.update(s[:, runs], a[:, runs], t[:, runs], r[:, runs])
    return transitions, rewards


@pytest.mark.parametrize("n", [1, 7])
def test_a_run_draws_the_same_alone_and_beside_others(n):
    together = [p.sample(n, streams(6)) for p in both(6, np.random.default_rng(1))]
    assert [draws.shape for draws in together] == [(n, S, A, S, 6)] * 2
    for runs in ([0], [5], [2, 4]):
        posteriors = both(6, np.random.default_rng(1), runs)
        for posterior, draws in zip(posteriors, together, strict=True):
            alone = posterior.sample(n, [streams(6)[run] for run in runs])
            np.testing.assert_array_equal(alone, draws[..., runs])
    transitions = Dirichlet((S, A), S)
    np.testing.assert_array_equal(
        transitions.sample(n, streams(1)[0]), Dirichlet((S, A), S, 1).sample(n, streams(1))[..., 0]
    )


def test_order_of_the_random_numbers():
    """As documented: learners that share a stream draw the same models, and leave the stream at the same place."""
    transitions, rewards = both(1, np.random.default_rng(2))
    ours, theirs = streams(1)[0], streams(1)[0]
    draws, means = transitions.sample(4, ours), rewards.sample(4, ours)
    alpha = np.broadcast_to(transitions.concentration()[..., 0], (4, S, A, S))
    small = alpha < 1
    logarithms = np.log(theirs.standard_gamma(np.where(small, alpha + 1, alpha)))
    logarithms[small] -= theirs.standard_exponential(small.sum()) / alpha[small]
    weights = np.exp(logarithms - logarithms.max(-1, keepdims=True))
    np.testing.assert_allclose(draws[..., 0], weights / weights.sum(-1, keepdims=True), rtol=1e-12)
    mean, count, shape, rate = (array[..., 0] for array in rewards.parameters())
    gammas = theirs.standard_gamma(np.broadcast_to(shape, (4, S, A, S)))
    normals = theirs.standard_normal((4, S, A, S))
    np.testing.assert_allclose(means[..., 0], mean + normals / np.sqrt(count * gammas / rate), rtol=1e-12)
    assert ours.random() == theirs.random()


def test_draws_lie_run_by_run():
    for posterior in both(3, np.random.default_rng(3)):
        assert np.moveaxis(posterior.sample(5, streams(3)), -1, 0).flags.c_contiguous


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Dirichlet((3, 0), 2), r"an entry of cells must be an integer of at least 1, got 0"),
        (lambda: Dirichlet(3, 2.5), r"n_outcomes must be an integer of at least 1, got 2\.5"),
        (lambda: NormalGamma(3, 0), r"n_runs must be an integer of at least 1, got 0"),
        (lambda: Dirichlet(3, 2, concentration=0.0), r"concentration is 0\.0; it must lie in \[1e-50, 1e\+50\]"),
        (lambda: Dirichlet(3, 2, concentration=[1.0, np.nan]), r"concentration is nan; it must lie in"),
        (
            lambda: Dirichlet(3, 2, concentration=np.ones(4)),
            r"concentration must be numbers that broadcast to \(3, 2\)",
        ),
        (lambda: NormalGamma(3, 2, mean=np.inf), r"mean is inf; it must lie in \[-1e\+50, 1e\+50\]"),
        (lambda: NormalGamma(3, 2, precision_count=-1), r"precision_count is -1\.0; it must lie in"),
        (lambda: NormalGamma(3, 2, shape="a"), r"shape must be numbers that broadcast to \(3, 2\)"),
        (lambda: NormalGamma(3, 2, rate=[1.0, 0.0]), r"rate is 0\.0; it must lie in"),
    ],
)
def test_errors_of_settings(build, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        build()


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (([0, 1],), r"in cells of shape \(3, 4\) is 2 index arrays, got 1 arrays"),
        (([0, 3], [0, 1]), r"index array 0 of an observation holds 3; it must lie in 0 \.\. 2"),
        (([0, 1], [0, -1]), r"index array 1 of an observation holds -1; it must lie in 0 \.\. 3"),
        (([0, 1], [0.0, 1.0]), r"index array 1 of an observation must hold integers, got float64"),
        (([0, 1, 2], [0, 1, 2]), r"of shapes \[\(3,\), \(3,\)\], do not broadcast to \(\.\.\., R\) with R = 2 runs"),
        (([[0], [1]], [[1, 1, 1]]), r"do not broadcast to \(\.\.\., R\) with R = 2 runs"),
    ],
)
def test_errors_of_dirichlet_updates(arrays, sentence):
    posterior = Dirichlet(3, 4, 2)
    with pytest.raises(InvalidInputError, match=sentence):
        posterior.update(*arrays)
    assert posterior.counts().sum() == 0


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ((), r"in cells of shape \(3,\) is 1 index arrays and one of values, got 0 arrays"),
        (([0, 1],), r"is 1 index arrays and one of values, got 1 arrays"),
        (([0, 1], [1.0, np.nan]), r"an observed value is nan; it must be at most 1e\+50 in size"),
        (([0, 1], [1.0, 1e60]), r"an observed value is 1e\+60"),
        (([0, 1], ["a", "b"]), r"observed values must be numbers"),
        (([0, 1], [1.0, 2.0, 3.0]), r"of shapes \[\(2,\), \(3,\)\], do not broadcast"),
    ],
)
def test_errors_of_normal_gamma_updates(arrays, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        NormalGamma(3).update(*arrays)


def test_one_run_with_its_axis_takes_no_batch_for_runs():
    with pytest.raises(InvalidInputError, match=r"do not broadcast to \(\.\.\., R\) with R = 1 runs"):
        NormalGamma(3, 1).update([0, 1], [1.0, 2.0])
    posterior = NormalGamma(3, 1)
    posterior.update([[0], [1]], [[1.0], [2.0]])
    assert posterior.counts()[:, 0].tolist() == [1, 1, 0]


def test_errors_of_samples():
    posterior, alone = Dirichlet(3, 4, 2), np.random.default_rng(0)
    for rng in (alone, [alone, alone], streams(3)):
        with pytest.raises(InvalidInputError, match=r"rng must be 2 different generators, one for each run, got"):
            posterior.sample(1, rng)
    for rng in (7, None, [1, 2], np.random.RandomState(0)):
        with pytest.raises(InvalidInputError, match=r"rng must be a numpy\.random\.Generator, or a list of one"):
            posterior.sample(1, rng)
    with pytest.raises(InvalidInputError, match=r"n must be an integer of at least 1, got 0"):
        posterior.sample(0, streams(2))
    with pytest.raises(InvalidInputError, match=r"a draw of tau is 0 in float64; give the prior a shape of at least"):
        NormalGamma(3, shape=1e-3).sample(100, alone)
