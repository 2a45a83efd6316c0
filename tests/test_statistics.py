"""Intervals against closed forms, enumeration and their own definition: coverage in simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from tabpo.errors import InvalidInputError
from tabpo.statistics import interval, log_log_slope, simultaneous_band


def test_t_interval_is_that_of_the_t_test():
    values = np.random.default_rng(0).normal(3, 2, (4, 9))
    mean, lower, upper = interval(values, level=0.9)
    expected = scipy.stats.ttest_1samp(values, 0, axis=-1).confidence_interval(0.9)
    np.testing.assert_allclose(mean, values.mean(-1))
    np.testing.assert_allclose(lower, expected.low)
    np.testing.assert_allclose(upper, expected.high)


def test_the_run_axis_is_the_one_that_is_named():
    values = np.random.default_rng(1).normal(size=(5, 7))
    for ours, theirs in zip(interval(values, axis=0), interval(values.T), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_t_interval_covers_at_its_level():
    # 20,000 samples of 5 Gaussian runs: standard error of the coverage 0.0015, tolerance four of them (false
    # alarm 6e-5). z = 1.96 in place of t would cover 0.878 and fail with probability 1 to within 1e-300.
    values = np.random.default_rng(2).normal(1.5, 3, (20_000, 5))
    _, lower, upper = interval(values)
    assert np.mean((lower < 1.5) & (upper > 1.5)) == pytest.approx(0.95, abs=0.0062)


def test_percentile_bootstrap_agrees_with_all_resamples_enumerated():
    values = np.array([0.1, 1.3, 2.2, 3.57, 5.04, 9.7])
    means = np.array(list(itertools.product(values, repeat=6))).mean(1)
    _, lower, upper = interval(values, level=0.8, method="percentile", n_resamples=20_000)
    # 20,000 resamples estimate a quantile to about 0.03 here; the runs' standard deviation is 3.4.
    np.testing.assert_allclose([lower, upper], np.quantile(means, [0.1, 0.9]), atol=0.15)


@pytest.mark.parametrize("method", ["bootstrap", "percentile"])
def test_bootstrap_covers_a_skewed_mean_and_is_reproducible(method):
    # 400 samples of 40 exponential runs: standard error of a coverage of 0.93 is 0.013. A 90 % interval or
    # one over the wrong axis (coverage 0 or 1) fails with power above 0.9.
    values = np.random.default_rng(3).exponential(2.0, (400, 40))
    _, lower, upper = interval(values, method=method, n_resamples=999)
    assert 0.90 <= np.mean((lower < 2) & (upper > 2)) <= 0.975
    again = interval(values, method=method, n_resamples=999)
    np.testing.assert_array_equal(lower, again[1])


def test_bootstrap_of_equal_runs_is_a_point():
    values = np.vstack([np.full(8, 2.5), np.arange(8.0)])
    mean, lower, upper = interval(values, method="bootstrap")
    assert mean[0] == lower[0] == upper[0] == 2.5
    assert lower[1] < 3.5 < upper[1]


def test_simultaneous_band_covers_whole_random_walks():
    # 300 random walks of 40 checkpoints and 12 runs: standard error of a coverage of 0.97 is 0.01. The
    # pointwise interval covers about 0.80 of the whole curves; the test tells them apart with power above
    # 0.999.
    rng = np.random.default_rng(4)
    walks = np.cumsum(rng.normal(size=(300, 40, 12)), axis=1)
    bands = [simultaneous_band(walk, n_resamples=500) for walk in walks]
    assert np.mean([np.all((low <= 0) & (high >= 0)) for _, low, high in bands]) >= 0.945
    _, low, high = interval(walks)
    assert np.mean(((low <= 0) & (high >= 0)).all(-1)) <= 0.88


def test_simultaneous_factor_follows_the_dependence_of_the_curve():
    rng = np.random.default_rng(5)
    runs, points = 400, 50
    independent = rng.normal(size=(points, runs))
    repeated = np.repeat(rng.normal(size=(1, runs)), points, axis=0)

    def factor(curves):
        mean, _, upper = simultaneous_band(curves, n_resamples=4000)
        return np.unique(np.round((upper - mean) / (curves.std(1, ddof=1) / np.sqrt(runs)), 9))

    # Closed forms at many runs: Sidak for independent checkpoints, the single normal quantile for equal ones.
    # A quantile of 4,000 resamples is good to about 0.04.
    assert factor(independent) == pytest.approx(scipy.stats.norm.ppf((1 + 0.95 ** (1 / points)) / 2), abs=0.12)
    assert factor(repeated) == pytest.approx(scipy.stats.norm.ppf(0.975), abs=0.12)


def test_simultaneous_band_with_three_runs_is_bonferroni_and_finite():
    curves = np.random.default_rng(6).normal(size=(10, 3))
    mean, _, upper = simultaneous_band(curves)
    bonferroni = scipy.stats.t.ppf(1 - 0.05 / 20, 2)
    np.testing.assert_allclose(upper - mean, bonferroni * curves.std(1, ddof=1) / np.sqrt(3))


def test_simultaneous_band_is_reproducible_and_a_point_where_runs_agree():
    curves = np.random.default_rng(7).normal(size=(6, 30))
    curves[0] = 0
    first, second = simultaneous_band(curves), simultaneous_band(curves)
    np.testing.assert_array_equal(first[1], second[1])
    assert first[1][0] == first[2][0] == 0
    assert not np.array_equal(first[1], simultaneous_band(curves, seed=1)[1])
    np.testing.assert_array_equal(simultaneous_band(np.ones((3, 4)))[2], 1)


def test_a_single_run_has_no_interval():
    for mean, lower, upper in (
        interval([[1.0], [2.0]]),
        interval([[1.0], [2.0]], method="bootstrap"),
        simultaneous_band([[1.0], [2.0]]),
    ):
        np.testing.assert_array_equal(mean, [1, 2])
        assert np.isnan(lower).all()
        assert np.isnan(upper).all()


def test_slope_of_power_laws_is_their_exponent():
    episodes = np.geomspace(10, 10_000, 30)
    exponents = np.array([0.5, 2 / 3, 1.0, 0.25])
    slope = log_log_slope(episodes, 3 * episodes[:, None] ** exponents)
    np.testing.assert_allclose(slope.per_run, exponents)
    assert slope.window[0] >= 1000
    assert slope.mean == pytest.approx(exponents.mean())
    assert slope.n_points == 10


def test_slope_is_that_of_least_squares_in_the_window():
    rng = np.random.default_rng(8)
    episodes = np.geomspace(1, 1000, 25)
    curve = np.exp(rng.normal(0, 0.3, 25)) * episodes**0.5
    inside = (episodes >= 5) & (episodes <= 500)
    expected = scipy.stats.linregress(np.log(episodes[inside]), np.log(curve[inside])).slope
    slope = log_log_slope(episodes, curve, window=(5, 500))
    assert slope.mean == pytest.approx(expected)
    assert "single run" in str(slope)


def test_slope_interval_covers_the_exponent():
    # 1,000 samples of 6 runs: standard error of the coverage 0.007, tolerance four of them.
    rng = np.random.default_rng(9)
    episodes = np.geomspace(100, 1000, 8)
    hits = 0
    for _ in range(1000):
        curves = np.exp(rng.normal(0, 0.2, (8, 6))) * episodes[:, None] ** 0.5
        slope = log_log_slope(episodes, curves)
        hits += slope.lower < 0.5 < slope.upper
    assert hits / 1000 == pytest.approx(0.95, abs=0.028)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: interval(np.empty((3, 0))), "at least one run"),
        (lambda: interval([1.0, np.nan]), "nan at"),
        (lambda: interval([1.0, 2.0], level=95), "between 0 and 1"),
        (lambda: interval([1.0, 2.0], method="bca"), "unknown interval method 'bca'"),
        (lambda: simultaneous_band([1.0, 2.0]), "checkpoints, runs"),
        (lambda: log_log_slope([1, 10, 100], [[1.0], [2.0], [-1.0]]), "not positive"),
        (lambda: log_log_slope([1, 100], [[1.0], [2.0]]), "a slope needs two"),
        (lambda: log_log_slope([1, 100], [[1.0], [2.0], [3.0]]), "must have shape"),
    ],
)
def test_bad_input_is_named(call, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        call()
