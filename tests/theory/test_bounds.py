"""Bounds with explicit constants: worked by hand, the specification's figure, brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tabpo import InvalidInputError
from tabpo.theory import bounds


def test_dapo_regret_worked_by_hand():
    """H, S, A, K, D = 2, 3, 4, 100, 50, eta = 1/100, gamma = 2 eta H = 1/25.

    2 ln 4 / eta = 200 ln 4; bonuses 3 gamma H^2 S A K = 576; then eta times 9*32*200 + 2*8*50 + 2*(4 + 12)*(2 + 12)*50
    = 57600 + 800 + 22400 = 80800; and 2 sqrt(100) = 20.
    """
    expected = 200 * math.log(4) + 576 + 808 + 20
    assert bounds.dapo_regret(2, 3, 4, 100, 50, 0.01) == pytest.approx(expected)
    assert bounds.dapo_regret(2, 3, 4, 100, 50, 0.01, exploration=0.02) == pytest.approx(expected - 288)
    assert bounds.dapo_regret(2, 3, 1, 100, 0, 0.01) == pytest.approx(6 * 0.01 * 8 * 3 * 100 + 0.01 * 9 * 32 * 100)


def test_dapo_regret_is_the_specifications_figure():
    """293 494 at K = 64 000, H = S = A = 2, delay 20, the theorem's tuning (section 10): without the lost feedback."""
    K = 64_000
    D = int(np.minimum(20, np.arange(K)[::-1]).sum())
    eta = (4 * 4 * K + 16 * (K + D)) ** -0.5
    assert round(bounds.dapo_regret(2, 2, 2, K, D, eta) - 2 * math.sqrt(2 * D)) == 293_494


def test_dapo_regret_grows_like_the_root_of_episodes_and_delay():
    """With the theorem's step size: a factor 16 in both K and D is a factor of 4 in the bound, exactly."""

    def tuned(K, D):
        return bounds.dapo_regret(3, 2, 2, K, D, (9 * 4 * K + 81 * (K + D)) ** -0.5)

    assert tuned(16 * 10**5, 16 * 10**6) == pytest.approx(4 * tuned(10**5, 10**6), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"step_size": 0.1}, r"needs 3 step_size H\^2 max_arrivals <= 1, got 1.2; a step_size of at most 0.0833"),
        ({"max_arrivals": 9}, "max_arrivals <= 1, got 1.08"),
        ({"exploration": 0.009}, "needs exploration >= step_size H / 2 = 0.01, got 0.009"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"step_size": math.nan}, "step_size must be a number of at least 0"),
        ({"total_delay": -1}, "total_delay must be a number of at least 0, got -1"),
        ({"n_actions": 0}, "n_actions"),
    ],
)
def test_conditions_of_the_bound_get_a_sentence(arguments, sentence):
    given = {
        "horizon": 2,
        "n_states": 3,
        "n_actions": 4,
        "n_episodes": 100,
        "total_delay": 50,
        "step_size": 0.01,
        **arguments,
    }
    with pytest.raises(InvalidInputError, match=sentence):
        bounds.dapo_regret(**given)


def test_lost_feedback_by_brute_force():
    """The most episodes lost over all delays of 5 episodes with a total of D, for each D."""
    most = {}
    for delays in itertools.product(range(7), repeat=5):
        lost = sum(k + d >= 5 for k, d in enumerate(delays))
        most[sum(delays)] = max(most.get(sum(delays), 0), lost)
    for total in range(16):  # beyond, all five are lost
        assert bounds.lost_feedback(total) == most[total]
    for total in (0, 1, 2.5, 10**6, 10**15):
        n = bounds.lost_feedback(total)
        assert n * (n + 1) <= 2 * total < (n + 1) * (n + 2)
        assert n <= math.sqrt(2 * total)


def test_max_arrivals(rng):
    assert bounds.max_arrivals([0, 0, 0]) == 1
    assert bounds.max_arrivals([2, 1, 0]) == 3
    assert bounds.max_arrivals([2, 1, 1]) == 2
    assert bounds.max_arrivals([9, 9, 9]) == 0
    assert bounds.max_arrivals(np.array([2**62, 0])) == 1
    delays = rng.integers(0, 9, 50)
    counts = [sum(j + delays[j] == k for j in range(50)) for k in range(50)]
    assert bounds.max_arrivals(delays) == max(counts)
    for wrong in ([0.5], [-1], [], 3):
        with pytest.raises(InvalidInputError, match=r"delays must be an array \(K,\) of integers of at least 0"):
            bounds.max_arrivals(wrong)
