"""Delay laws against closed forms and a real data set; arrivals; sentences for bad input.

Statistical tests fix their seed; with 4.5 standard errors a right implementation fails at fewer than 1 seed in
100,000.
"""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabpo.environments import (
    DELAYS,
    AdversarialDelays,
    ArrayDelays,
    BurstDelays,
    FileDelays,
    FixedDelays,
    GeometricDelays,
    NoDelays,
    ParetoDelays,
    PoissonDelays,
    UniformDelays,
)
from tabpo.errors import InvalidInputError

NO_SWITCHES = np.empty(0, dtype=np.int64)
K = 40_000


def drawn(law, n_episodes: int = K, seed: int = 11, switches=NO_SWITCHES) -> np.ndarray:
    delays = law.realise(n_episodes, np.random.default_rng(seed), np.asarray(switches, dtype=np.int64))
    assert delays.shape == (n_episodes,)
    assert delays.dtype == np.int64
    assert (delays >= 0).all()
    return delays


def pareto_pmf(shape: float, scale: float, maximum: int) -> np.ndarray:
    """P(delay = n) for n = 0 ... maximum, from the distribution function of the truncated Pareto law."""
    edges = np.maximum(np.arange(maximum + 2), scale).astype(float)
    beyond = (scale / edges) ** shape
    return -np.diff(beyond) / (1 - beyond[-1])


def moments(pmf: np.ndarray) -> tuple[float, float, float]:
    """Mean, variance and fourth central moment of a law on 0, 1, 2, ..."""
    n = np.arange(len(pmf))
    mean = float(pmf @ n)
    return mean, float(pmf @ (n - mean) ** 2), float(pmf @ (n - mean) ** 4)


LAWS = {
    "uniform": (UniformDelays(3, 17), np.r_[np.zeros(3), np.full(15, 1 / 15)]),
    "uniform, one value": (UniformDelays(4, 4), np.r_[np.zeros(4), 1]),
    "geometric": (GeometricDelays(8), (1 / 9) * (8 / 9) ** np.arange(2000)),
    "geometric, below one": (GeometricDelays(0.3), (1 / 1.3) * (0.3 / 1.3) ** np.arange(200)),
    "geometric, zero": (GeometricDelays(0), np.ones(1)),
    "poisson": (PoissonDelays(12.5), np.exp([n * math.log(12.5) - 12.5 - math.lgamma(n + 1) for n in range(200)])),
    "poisson, zero": (PoissonDelays(0), np.ones(1)),
    "pareto": (ParetoDelays(2.5, 3, 60), pareto_pmf(2.5, 3, 60)),
    "pareto, heavy": (ParetoDelays(0.5, 1, 300), pareto_pmf(0.5, 1, 300)),
    "pareto, fractional scale": (ParetoDelays(1, 0.4, 20), pareto_pmf(1, 0.4, 20)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_have_the_moments_and_probabilities_of_the_closed_forms(name):
    law, pmf = LAWS[name]
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    delays = drawn(law)
    mean, variance, fourth = moments(pmf)
    # means that are off by 4.5 + 2.3 standard errors (0.034 standard deviations) are found with probability 0.99
    assert abs(delays.mean() - mean) <= 4.5 * math.sqrt(variance / K)
    # the variance's own standard error, and the bias of using the sample's mean
    assert abs(delays.var() - variance) <= 4.5 * math.sqrt(max(fourth - variance**2, 0) / K) + 21 * variance / K
    counts = np.bincount(delays)
    assert len(counts) <= len(pmf)
    often = np.flatnonzero(pmf * K > 20)
    shares = np.bincount(delays, minlength=len(pmf))[often] / K
    assert (np.abs(shares - pmf[often]) <= 5.5 * np.sqrt(pmf[often] * (1 - pmf[often]) / K) + 1e-12).all()


def test_closed_moments_of_the_named_laws():
    assert moments(LAWS["uniform"][1])[:2] == pytest.approx(((3 + 17) / 2, (15**2 - 1) / 12))
    assert moments(LAWS["geometric"][1])[:2] == pytest.approx((8, 8 * 9))
    assert moments(LAWS["poisson"][1])[:2] == pytest.approx((12.5, 12.5))


def test_delays_of_different_episodes_are_independent():
    for law in (GeometricDelays(8), ParetoDelays(2.5, 3, 60), UniformDelays(0, 9)):
        delays = drawn(law)
        assert abs(np.corrcoef(delays[1:], delays[:-1])[0, 1]) < 4.5 / math.sqrt(K)


@pytest.mark.parametrize("law", [UniformDelays(0, 50), GeometricDelays(20), PoissonDelays(20), ParetoDelays(1.2)])
def test_delays_are_a_function_of_the_generator(law):
    np.testing.assert_array_equal(drawn(law, 50), drawn(law, 50))
    assert (drawn(law, 50) != drawn(law, 50, seed=12)).any()


def test_pareto_reaches_both_ends_and_no_further():
    delays = drawn(ParetoDelays(0.01, 1, 3))
    assert (delays.min(), delays.max()) == (1, 3)
    assert drawn(ParetoDelays(0.01, 1e-3, 1)).max() == 1
    assert drawn(ParetoDelays(1e-12, 1, 10**15)).max() <= 10**15
    assert drawn(ParetoDelays(5000.0, 2.0)).max() == 2


def test_none_and_fixed():
    assert (drawn(NoDelays(), 5) == 0).all()
    assert drawn(FixedDelays(0), 3).tolist() == [0, 0, 0]
    assert drawn(FixedDelays(7), 3).tolist() == [7, 7, 7]  # longer than the simulation: never arrives


def test_bursts_arrive_together_at_the_end_of_their_block():
    assert (np.arange(10) + drawn(BurstDelays(4), 10)).tolist() == [3, 3, 3, 3, 7, 7, 7, 7, 11, 11]
    assert (drawn(BurstDelays(1), 10) == 0).all()


def test_given_delays():
    assert drawn(ArrayDelays([3, 0.0, 10**12]), 3).tolist() == [3, 0, 10**12]
    for n_episodes in (2, 4):
        with pytest.raises(InvalidInputError, match=f"delays has 3 entries, but n_episodes is {n_episodes}"):
            drawn(ArrayDelays([1, 2, 3]), n_episodes)


def withheld_until(k: int, switches, length: int, extra: int) -> int:
    """When the feedback of episode k arrives, window by window."""
    ends = [s + length - 1 + extra for s in switches if s <= k < s + length]
    return max(ends, default=k)


@given(
    st.integers(2, 60).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.integers(1, n - 1), min_size=1, max_size=6, unique=True).map(sorted)
        )
    ),
    st.integers(1, 20),
    st.integers(0, 70),
)
def test_adversary_withholds_the_episodes_after_a_switch(episodes_and_switches, length, extra):
    n_episodes, switches = episodes_and_switches
    arrivals = np.arange(n_episodes) + drawn(AdversarialDelays(length, extra), n_episodes, switches=switches)
    assert arrivals.tolist() == [withheld_until(k, switches, length, extra) for k in range(n_episodes)]
    for start in switches:  # nothing about a new regime is seen before its window ends
        assert (arrivals[start : start + length] >= start + length - 1).all()


def test_adversary_needs_switches():
    with pytest.raises(InvalidInputError, match="these losses have none in 30 episodes; use switching losses"):
        drawn(AdversarialDelays(3), 30)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FixedDelays(-1), "delay must be an integer of at least 0, got -1"),
        (lambda: FixedDelays(2.5), "delay must be an integer of at least 0, got 2.5"),
        (lambda: FixedDelays(10**30), r"delay must be at most 1e\+15"),
        (lambda: UniformDelays(-1, 3), "low must be an integer of at least 0, got -1"),
        (lambda: UniformDelays(4, 3), "high must be at least low = 4, got 3"),
        (lambda: GeometricDelays(-0.5), r"mean must be a number of at least 0 .*, got -0\.5"),
        (lambda: GeometricDelays(float("nan")), "mean must be a number of at least 0 .*, got nan"),
        (lambda: PoissonDelays(float("inf")), "mean must be a number of at least 0 .*, got inf"),
        (lambda: PoissonDelays("3"), "mean must be a number of at least 0 .*, got '3'"),
        (lambda: ParetoDelays(0), "shape must be a number above 0, got 0"),
        (lambda: ParetoDelays(1, 0), "scale must be a number above 0"),
        (lambda: ParetoDelays(1, 5, 4), "maximum must be at least scale = 5, got 4"),
        (lambda: ParetoDelays(1, 5, 40.5), "maximum must be an integer of at least 0, got 40.5"),
        (lambda: BurstDelays(0), "length must be an integer of at least 1, got 0"),
        (lambda: AdversarialDelays(0), "length must be an integer of at least 1, got 0"),
        (lambda: AdversarialDelays(3, -1), "extra must be an integer of at least 0, got -1"),
        (lambda: ArrayDelays([0, 1, -2]), "delays is -2 at episode 2; a delay must be a whole number of at least 0"),
        (lambda: ArrayDelays([0, 1.5]), r"delays is 1\.5 at episode 1; a delay must be a whole number"),
        (lambda: ArrayDelays([0, float("nan")]), "delays is nan at episode 1"),
        (lambda: ArrayDelays([float("inf")]), "delays is inf at episode 0"),
        (lambda: ArrayDelays([[1, 2]]), r"one per episode, got an array of shape \(1, 2\)"),
        (lambda: ArrayDelays([[1], [1, 2]]), "delays must be a list of whole numbers, one per episode"),
        (lambda: ArrayDelays(["soon"]), "delays must be a list of whole numbers, one per episode"),
        (lambda: ArrayDelays([True]), "delays must be a list of whole numbers, one per episode"),
    ],
)
def test_bad_parameters_are_sentences(make, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make()


def test_registry_is_complete_and_described():
    kinds = "adversarial array bursts file fixed geometric none pareto poisson uniform"
    assert sorted(DELAYS) == kinds.split()
    for name, call in DELAYS.items():
        assert inspect.getdoc(call).splitlines()[0].endswith("."), name


def real_durations(name: str, column: str) -> pd.Series:
    """A column of a survival data set that lifelines brings: times in days or weeks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what lifelines' imports warn of is not ours
        datasets = pytest.importorskip("lifelines.datasets", reason="lifelines brings the real durations")
        return getattr(datasets, f"load_{name}")()[column]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("data", "column", "n_rows", "episodes_per_unit"),
    [("waltons", "T", 163, 1.0), ("waltons", "T", 163, 0.3), ("rossi", "week", 432, 7.0)],
)
def test_real_durations_become_delays(tmp_path, suffix, data, column, n_rows, episodes_per_unit):
    durations = real_durations(data, column)
    assert len(durations) == n_rows
    path = tmp_path / f"durations.{suffix}"
    frame = pd.DataFrame({"other": "text", column: durations})
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)

    delays = drawn(FileDelays(path, column, episodes_per_unit), 1000)
    # exact arithmetic: durations are whole days or weeks, episodes_per_unit is a multiple of a tenth
    exact = [-(-int(t) * round(10 * episodes_per_unit) // 10) for t in durations]
    assert delays.tolist() == (exact * (1000 // n_rows + 1))[:1000]

    resampled = drawn(FileDelays(str(path), column, episodes_per_unit, order="resample"))
    assert set(resampled) <= set(exact)
    assert abs(resampled.mean() - np.mean(exact)) <= 4.5 * np.std(exact) / math.sqrt(K)
    np.testing.assert_array_equal(resampled, drawn(FileDelays(path, column, episodes_per_unit, order="resample")))


def test_durations_are_rounded_up_but_not_for_rounding_errors(tmp_path):
    path = tmp_path / "durations.csv"
    pd.DataFrame({"t": [0, 1e-6, 0.999, 1, 1.001, 30, 1e300]}).to_csv(path, index=False)
    assert drawn(FileDelays(path, "t"), 7).tolist()[:6] == [0, 1, 1, 1, 2, 30]
    assert 0.1 * 30 > 2.9
    assert drawn(FileDelays(path, "t", episodes_per_unit=0.1), 7).tolist()[5] == 3
    assert drawn(FileDelays(path, "t"), 7)[6] > 10**15  # never arrives


@pytest.mark.parametrize(
    ("values", "arguments", "sentence"),
    [
        ([1, -2.5], {}, r"the column 't' of 'd\.csv' is -2\.5 in row 1; a duration must not be negative"),
        ([1, None, 3], {}, r"the column 't' of 'd\.csv' is nan in row 1; every entry must be a number"),
        ([1, float("inf")], {}, r"the column 't' of 'd\.csv' is inf in row 1"),
        (["soon"], {}, r"the column 't' of 'd\.csv' is soon in row 0"),
        ([], {}, r"'d\.csv' has no rows"),
        ([1], {"column": "T"}, r"'d\.csv' has no column 'T' \(it has: t\)"),
        ([1], {"order": "random"}, "unknown order 'random'"),
        ([1], {"episodes_per_unit": 0}, "episodes_per_unit must be a number above 0, got 0"),
    ],
)
def test_bad_duration_files_are_sentences(tmp_path, values, arguments, sentence):
    pd.DataFrame({"t": values}).to_csv(tmp_path / "d.csv", index=False)
    with pytest.raises(InvalidInputError, match=sentence):
        FileDelays(tmp_path / "d.csv", **{"column": "t", **arguments})


def test_missing_and_unreadable_duration_files_are_sentences(tmp_path):
    (tmp_path / "durations.parquet").write_text("no table")
    with pytest.raises(InvalidInputError, match=r"'durations\.parquet' cannot be read as a table"):
        FileDelays(tmp_path / "durations.parquet", "t")
    with pytest.raises(InvalidInputError, match=r"there is no file .*duration\.parquet'; did you mean 'durations"):
        FileDelays(tmp_path / "duration.parquet", "t")
    with pytest.raises(InvalidInputError, match=r"must end in \.csv, \.parquet"):
        FileDelays(tmp_path / "durations.xls", "t")
