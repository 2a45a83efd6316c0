"""Models reject what is not a model with a sentence that names the array, the index and the value."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import tabpo
from tabpo import LossMap, TabularMDP
from tabpo.errors import InvalidInputError

H, S, A = 2, 3, 2
ROWS = np.full((H, S, A, S), 1 / 3)
INITIAL = np.array([1.0, 0.0, 0.0])


def changed(array: np.ndarray, index: tuple, value: float) -> np.ndarray:
    copy = np.array(array, dtype=float)
    copy[index] = value
    return copy


LEAKING = changed(ROWS, (1, 2, 0, 1), 1 / 3 - 0.02)
BAD = [
    ({"transitions": LEAKING}, "the row of transitions at (h, s, a) = (1, 2, 0) sums to 0.98; it must sum to 1"),
    (
        {"transitions": changed(ROWS, (0, 1, 1, 2), np.nan)},
        "transitions is nan at (h, s, a, next_state) = (0, 1, 1, 2)",
    ),
    ({"transitions": changed(ROWS, (0, 0, 0, 0), -0.1)}, "transitions is -0.1 at (h, s, a, next_state) = (0, 0, 0, 0)"),
    (
        {"transitions": changed(ROWS, (0, 0, 0, 0), np.inf)},
        "transitions is inf at (h, s, a, next_state) = (0, 0, 0, 0)",
    ),
    ({"transitions": ROWS[0]}, "transitions must have 4 axes (h, s, a, next_state), got shape (3, 2, 3)"),
    ({"transitions": np.full((H, S, A, 4), 0.25)}, "3 states but rows of length 4"),
    ({"transitions": np.zeros((0, S, A, S))}, "transitions is empty: shape (0, 3, 2, 3)"),
    ({"transitions": "ring"}, "transitions must be an array of numbers over (h s a next_state)"),
    ({"transitions": [[[0.5, 0.5], [1.0]]]}, "transitions must be an array of numbers"),
    ({"initial": [0.5, 0.4, 0.0]}, "the row of initial sums to 0.9; it must sum to 1"),
    ({"initial": [0.5, 0.5]}, "initial has length 2, but transitions have 3 states"),
    ({"initial": [1.5, -0.5, 0.0]}, "initial is -0.5 at s = 1; probabilities must not be negative"),
    ({"losses": np.zeros((H, S))}, "losses must have 3 axes (h, s, a), got shape (2, 3)"),
    ({"losses": np.zeros((H, S, 3))}, "losses must have shape (H, S, A) = (2, 3, 2), got (2, 3, 3)"),
    (
        {"losses": changed(np.zeros((H, S, A)), (1, 0, 1), 1.5)},
        "losses is 1.5 at (h, s, a) = (1, 0, 1); it must lie in [0, 1]",
    ),
    ({"losses": changed(np.zeros((H, S, A)), (1, 0, 1), -1e-9)}, "losses is -1e-09 at (h, s, a) = (1, 0, 1)"),
    ({"state_labels": ["a", "b"]}, "state_labels has 2 entries, expected 3"),
    ({"action_labels": ["a"]}, "action_labels has 1 entries, expected 2"),
    ({"positions": np.zeros((S, 3))}, "positions must have shape (S, 2) = (3, 2), got (3, 3)"),
    ({"transitions": ROWS * 0, "normalize": True}, "sums to 0; it has no mass to normalize"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_bad_models_get_a_sentence(change, sentence):
    with pytest.raises(InvalidInputError, match=re.escape(sentence)):
        TabularMDP(**{"transitions": ROWS, "initial": INITIAL, **change})


def test_sums_may_miss_one_by_rounding_in_their_own_precision():
    rng = np.random.default_rng(0)
    for n_states in (2, 100, 1000):
        doubles = rng.dirichlet(np.ones(n_states), (1, 1, 1))[:, :, [0], :]
        doubles = np.repeat(doubles, n_states, axis=1)
        singles = doubles.astype(np.float32)
        for rows in (doubles, singles, singles.astype(np.float32)):
            mdp = TabularMDP(rows, np.full(n_states, 1 / n_states))
            assert np.abs(mdp.transitions.sum(-1) - 1).max() < 1e-14
        with pytest.raises(InvalidInputError, match="must sum to 1"):  # single precision in a double array is a mistake
            TabularMDP(doubles * (1 + 1e-6), np.full(n_states, 1 / n_states))


def test_normalize_divides_by_the_sum():
    mdp = TabularMDP(ROWS * 6, INITIAL * 2, normalize=True)
    np.testing.assert_allclose(mdp.transitions, ROWS)
    np.testing.assert_array_equal(mdp.initial, INITIAL)


def test_a_model_cannot_be_changed_and_keeps_what_it_was_given():
    rows = ROWS.copy()
    mdp = TabularMDP(rows, INITIAL)
    rows[:] = 7
    np.testing.assert_allclose(mdp.transitions, ROWS)
    with pytest.raises(ValueError, match="read-only"):
        mdp.transitions[0, 0, 0, 0] = 1
    with pytest.raises(AttributeError):
        mdp.initial = INITIAL


def test_a_stationary_model_is_stored_once():
    step = np.random.default_rng(1).dirichlet(np.ones(50), (50, 3))
    mdp = TabularMDP.stationary(step, np.eye(50)[0], 1000, losses=np.zeros((50, 3)))
    assert mdp.shape == (1000, 50, 3)
    assert mdp.transitions.strides[0] == 0
    np.testing.assert_allclose(mdp.transitions[999], step, atol=1e-15)
    with pytest.raises(InvalidInputError, match="horizon must be an integer of at least 1, got 0"):
        TabularMDP.stationary(step, np.eye(50)[0], 0)


def test_a_stationary_model_plays_as_its_step_by_step_twin():
    step = np.random.default_rng(1).dirichlet(np.ones(4) * 0.3, (4, 3))
    losses = np.random.default_rng(2).random((5, 4, 3))
    short = TabularMDP.stationary(step, np.eye(4)[0], 5)
    long = TabularMDP(np.repeat(step[None], 5, axis=0), np.eye(4)[0])
    results = [tabpo.simulate(tabpo.Environment(mdp, losses, 2), "dapo", 50, 3, seed=1) for mdp in (short, long)]
    np.testing.assert_array_equal(results[0].regret, results[1].regret)
    np.testing.assert_array_equal(results[0].sampled_loss, results[1].sampled_loss)


def test_models_of_one_state_action_and_step_work():
    mdp = TabularMDP(np.ones((1, 1, 1, 1)), [1.0], losses=np.ones((1, 1, 1)))
    assert (mdp.horizon, mdp.n_states, mdp.n_actions) == (1, 1, 1)


def test_models_survive_pickling():
    mdp = TabularMDP(ROWS, INITIAL, losses=np.zeros((H, S, A)), name="x", loss_map=LossMap(-1.0, 3.0))
    copy = pickle.loads(pickle.dumps(mdp))
    np.testing.assert_array_equal(copy.transitions, mdp.transitions)
    assert copy.loss_map.scale == 4.0


def test_importing_the_package_is_light():
    """No optional or heavy part is imported; the time is bounded by what is imported, not asserted."""
    code = (
        "import sys, tabpo\n"
        "heavy = {'numpy', 'numba', 'pandas', 'matplotlib', 'scipy', 'torch', 'cupy'}\n"
        "heavy |= {'distributed', 'gymnasium', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print(tabpo.TabularMDP.__name__, len(dir(tabpo)) > 10)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "TabularMDP True"]
    with pytest.raises(AttributeError, match="no attribute 'smulate'"):
        _ = tabpo.smulate
