"""Regret bounds of best of both worlds: worked by hand, their growth, their conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabpo import InvalidInputError
from tabpo.theory import bounds

BOUNDS = [bounds.bobw_tsallis_regret, bounds.bobw_shannon_regret, bounds.bobw_log_barrier_regret]
SIZES = (3, 4, 2)


def gaps(value, shape=SIZES):
    """Return gaps (H, S, A) of one size, the first action being optimal."""
    array = np.full(shape, float(value))
    array[:, :, 0] = 0
    return array


def test_tsallis_worked_by_hand():
    """H, S, A = 1, 2, 4 and T = c_gamma = 240 e = 652.4, rounded: every logarithm is one of 4 T or of 2.

    8 e sqrt(8 Lambda (T + 2 c ln 2)), Lambda = 1 + ln(4 T), and 4 e 2 2 Lambda + e 2 c ln 2 + 4 c_0, c_0 = sqrt(2) c.
    """
    c = 240 * math.e
    T = round(c)
    log_term = 1 + math.log(4 * c)
    explored = 2 * c * math.log(2)
    rest = 16 * math.e * log_term + math.e * explored + 4 * math.sqrt(2) * c
    expected = 8 * math.e * math.sqrt(8 * log_term * (c + explored)) + rest
    assert bounds.bobw_tsallis_regret(1, 2, 4, T) == pytest.approx(expected, rel=1e-3)
    # six gaps of 1/2 make U = 256 e^2 Lambda 12; with C = U it is 3 U + 2 lo
    unit = 256 * math.e**2 * log_term * 12
    found = bounds.bobw_tsallis_regret(1, 2, 4, T, gaps(0.5, (1, 2, 4)), corruption=unit)
    assert found == pytest.approx(3 * unit + 2 * rest, rel=1e-3)


def test_shannon_worked_by_hand():
    """H = S = 1, A = 2, T = c_gamma: Lambda = 1 + ln(4 T)."""
    c = (36 * math.e * math.log(2)) ** 2
    T = round(c)
    log_term, log_2 = 1 + math.log(4 * c), math.log(2)
    explored = c * log_2
    rest = math.e * (math.sqrt(4 * log_term * log_2) * (1 + math.log(4)) + explored)
    rest += 18 * math.e * math.sqrt(2 * log_term * log_2) * log_2
    expected = 2 * math.e * log_term * math.sqrt(2 * log_2 * (c + explored)) + rest
    assert bounds.bobw_shannon_regret(1, 1, 2, T) == pytest.approx(expected, rel=1e-3)
    unit = 4 * math.e**2 * 2 * log_term**2 * (1 + math.log(4 * c)) / 0.5
    assert bounds.bobw_shannon_regret(1, 1, 2, T, gaps(0.5, (1, 1, 2))) == pytest.approx(unit + 2 * rest, rel=1e-3)


def test_log_barrier_with_the_best_loss():
    """Each form is 2 lo and what belongs to it: their differences are free of lo."""
    H, S, A, T = *SIZES, 10_000
    plain = bounds.bobw_log_barrier_regret(H, S, A, T)
    at = [bounds.bobw_log_barrier_regret(H, S, A, T, best_loss=loss) for loss in (0.0, 100.0, 400.0)]
    assert at[2] - at[0] == pytest.approx(2 * (at[1] - at[0]))  # a root
    main = (at[1] - at[0]) / 10  # 2 K H sqrt(2 H S A)
    assert at[0] == pytest.approx(main**2 / 4 + 2 * (plain - main / 2 * math.sqrt(H * T)))
    with_gaps = [bounds.bobw_log_barrier_regret(H, S, A, T, gaps(x)) for x in (0.5, 1.0)]
    # U = 4 K^2 H^2 H S (A - 1) / gap, K^2 = main^2 / (8 H^3 S A)
    assert with_gaps[0] - with_gaps[1] == pytest.approx(main**2 / (2 * H * A) * H * (A - 1))


@pytest.mark.parametrize("bound", BOUNDS)
def test_growth_with_the_episodes(bound):
    """Against any losses a root of T times logarithms; with gaps no power of T."""
    T = np.array([10**12, 10**15, 10**18])
    anyhow = np.array([bound(*SIZES, int(t)) for t in T])
    with_gaps = np.array([bound(*SIZES, int(t), gaps(0.1)) for t in T])
    np.testing.assert_allclose(np.diff(np.log(anyhow)) / np.diff(np.log(T)), 0.5, atol=0.15)
    assert (np.diff(np.log(with_gaps)) / np.diff(np.log(T)) < 0.15).all()
    assert bound(*SIZES, 1000, gaps(0.1), corruption=5.0) > bound(*SIZES, 1000, gaps(0.1))


def test_shannon_pays_for_the_least_gap_only():
    """T4 has the least gap of each state, T2 all of them."""
    two = np.array([[[0.0, 0.1, 0.1]]])
    one = np.array([[[0.0, 0.1, 1.0]]])
    assert bounds.bobw_shannon_regret(1, 1, 3, 100, two) == bounds.bobw_shannon_regret(1, 1, 3, 100, one)
    assert bounds.bobw_tsallis_regret(1, 1, 3, 100, two) > bounds.bobw_tsallis_regret(1, 1, 3, 100, one)


def test_one_action():
    assert bounds.bobw_shannon_regret(2, 3, 1, 10) == 0
    for bound in BOUNDS:
        assert np.isfinite(bound(2, 3, 1, 10, np.zeros((2, 3, 1))))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_states": 0}, "n_states"),
        ({"gaps": np.ones((3, 4))}, r"gaps must have shape \(H, S, A\) = \(3, 4, 2\), got \(3, 4\)"),
        ({"gaps": np.ones(SIZES)}, "exactly one 0 at each state"),
        ({"gaps": np.zeros(SIZES)}, "exactly one 0 at each state"),
        ({"gaps": -gaps(1)}, "positive but for exactly one 0"),
        ({"gaps": gaps(1), "corruption": -1.0}, "corruption must be a number of at least 0, got -1.0"),
    ],
)
def test_bad_arguments_get_a_sentence(bound, arguments, sentence):
    given = {"horizon": 3, "n_states": 4, "n_actions": 2, "n_episodes": 100, **arguments}
    with pytest.raises(InvalidInputError, match=sentence):
        bound(**given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_episodes": 1}, "needs n_episodes of at least 2 for 2 actions, got 1"),
        ({"best_loss": -1.0}, "best_loss must be a number of at least 0"),
        ({"best_loss": 1.0, "gaps": gaps(1)}, "give gaps or best_loss, not both"),
    ],
)
def test_conditions_of_the_log_barriers_bound(arguments, sentence):
    given = {"horizon": 3, "n_states": 4, "n_actions": 2, "n_episodes": 100, **arguments}
    with pytest.raises(InvalidInputError, match=sentence):
        bounds.bobw_log_barrier_regret(**given)
