"""Exact planning against enumeration, golden values and a linear programme."""

from __future__ import annotations

import itertools

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tabpo import planning
from tabpo.errors import InvalidInputError
from tests.conftest import golden, random_policy

PLANNING = golden("planning")


@pytest.mark.parametrize("case", PLANNING["cases"], ids=lambda case: f"H{case['H']}S{case['S']}A{case['A']}")
def test_golden(case):
    arrays = {key: np.array(value) for key, value in case.items() if isinstance(value, list)}
    transitions, initial, policy = arrays["transitions"], arrays["initial"], arrays["policy"]
    losses = arrays["losses"][0] if arrays["losses"].ndim == 4 else arrays["losses"]
    tolerance = {"rtol": 0, "atol": PLANNING["tolerance"]}
    q_values, values = planning.evaluate(transitions, losses, policy)
    np.testing.assert_allclose(q_values, arrays["q_values"], **tolerance)
    np.testing.assert_allclose(values, arrays["values"], **tolerance)
    np.testing.assert_allclose(planning.occupancy(transitions, initial, policy), arrays["occupancy"], **tolerance)
    assert initial @ values[0] == pytest.approx(case["value"], abs=PLANNING["tolerance"])
    if "best_in_hindsight_total" not in case:  # the file enumerates all policies of the smaller cases only
        return
    total = arrays["losses"].sum(0)
    best, value = planning.best_in_hindsight(transitions, initial, total)
    assert value == pytest.approx(case["best_in_hindsight_total"], abs=PLANNING["tolerance"])
    assert initial @ planning.evaluate(transitions, total, best)[1][0] == pytest.approx(value, abs=1e-12)


@given(sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_values_are_means_over_all_trajectories(sizes, seed):
    H, S, A = sizes
    rng = np.random.default_rng(seed)
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S))
    policy, losses = random_policy(rng, H, S, A, 1)[..., 0], rng.random((H, S, A))
    value, occupancy = 0.0, np.zeros((H, S, A))
    for path in itertools.product(*[range(S), range(A)] * H):
        states, actions = path[::2], path[1::2]
        probability = initial[states[0]]
        for h in range(H):
            probability *= policy[h, states[h], actions[h]]
            if h + 1 < H:
                probability *= transitions[h, states[h], actions[h], states[h + 1]]
        value += probability * sum(losses[h, states[h], actions[h]] for h in range(H))
        for h in range(H):
            occupancy[h, states[h], actions[h]] += probability
    _, values = planning.evaluate(transitions, losses, policy)
    assert initial @ values[0] == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(planning.occupancy(transitions, initial, policy), occupancy, atol=1e-12)


def test_best_in_hindsight_is_the_linear_programme_over_occupancies(rng):
    for _ in range(10):
        H, S, A = 3, 4, 3
        transitions, initial = rng.dirichlet(np.ones(S) * 0.4, (H, S, A)), rng.dirichlet(np.ones(S))
        losses = rng.random((H, S, A)) * 100
        flow, right = np.zeros((H, S, H, S, A)), np.zeros((H, S))
        right[0] = initial
        for h, s in np.ndindex(H, S):
            flow[h, s, h, s, :] += 1
            if h:
                flow[h, s, h - 1] -= transitions[h - 1, :, :, s]
        programme = linprog(losses.ravel(), A_eq=flow.reshape(H * S, -1), b_eq=right.ravel())
        _, value = planning.best_in_hindsight(transitions, initial, losses)
        assert value == pytest.approx(programme.fun, abs=1e-8)


def test_run_axis_and_other_array_libraries_give_the_same(rng):
    H, S, A, R = 3, 4, 2, 5
    transitions, initial = rng.dirichlet(np.ones(S), (H, S, A)), rng.dirichlet(np.ones(S))
    policy, losses = random_policy(rng, H, S, A, R), rng.random((H, S, A, R))
    q_values, values = planning.evaluate(transitions, losses, policy)
    best, value = planning.best_in_hindsight(transitions, initial, losses)
    occupancy = planning.occupancy(transitions, initial, policy)
    for r in range(R):
        alone = planning.evaluate(transitions, losses[..., r], policy[..., r])
        np.testing.assert_array_equal(q_values[..., r], alone[0])
        np.testing.assert_array_equal(values[..., r], alone[1])
        np.testing.assert_array_equal(occupancy[..., r], planning.occupancy(transitions, initial, policy[..., r]))
        best_alone, value_alone = planning.best_in_hindsight(transitions, initial, losses[..., r])
        np.testing.assert_array_equal(best[..., r], best_alone)
        assert value[r] == pytest.approx(value_alone, abs=1e-13)
    strict = [array_api_strict.asarray(x) for x in (transitions, initial, losses, policy)]
    np.testing.assert_allclose(np.asarray(planning.evaluate(strict[0], strict[2], strict[3])[0]), q_values, atol=1e-12)
    np.testing.assert_allclose(np.asarray(planning.best_in_hindsight(*strict[:3])[1]), value, atol=1e-12)


def test_one_policy_with_losses_of_many_runs_and_lists(rng):
    H, S, A, R = 2, 3, 2, 4
    transitions = rng.dirichlet(np.ones(S), (H, S, A))
    policy, losses = random_policy(rng, H, S, A, 1)[..., 0], rng.random((H, S, A, R))
    q_values, _ = planning.evaluate(transitions, losses, policy)
    np.testing.assert_allclose(q_values[..., 2], planning.evaluate(transitions, losses[..., 2], policy)[0], atol=1e-13)
    integers = [[[0, 1], [1, 0], [1, 1]]] * H
    from_lists = planning.evaluate(transitions.tolist(), integers, policy.tolist())[1]
    np.testing.assert_allclose(from_lists, planning.evaluate(transitions, np.array(integers, float), policy)[1])


GOOD = np.full((2, 3, 2, 3), 1 / 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda p, c, t: (p[:, :2], c, t),
            r"policy must have shape \(H, S, A\) = \(2, 3, 2\).*got \(2, 2, 2\)",
        ),
        (lambda p, c, t: (p * 0.98, c, t), r"policy sums to 0\.98 over the actions at \(h, s\) = \(0, 0\)"),
        (lambda p, c, t: (p - 1, c, t), r"policy is -0\.5 at \(h, s, a\) = \(0, 0, 0\); probabilities"),
        (lambda p, c, t: (p * np.nan, c, t), r"policy is nan at \(h, s, a\) = \(0, 0, 0\)"),
        (lambda p, c, t: (p, c[0], t), r"losses must have shape \(H, S, A\) = \(2, 3, 2\).*got \(3, 2\)"),
        (
            lambda p, c, t: (p, c, t[..., :2]),
            r"transitions must have shape \(H, S, A, S\), got \(2, 3, 2, 2\)",
        ),
        (
            lambda p, c, t: (np.stack([p, p], -1), np.stack([c, c, c], -1), t),
            "losses have 3 runs and policy has 2",
        ),
    ],
)
def test_bad_input_gets_a_sentence(change, sentence):
    policy, losses, transitions = change(np.full((2, 3, 2), 0.5), np.zeros((2, 3, 2)), GOOD)
    with pytest.raises(InvalidInputError, match=sentence):
        planning.evaluate(transitions, losses, policy)


def test_wrong_initial_gets_a_sentence():
    with pytest.raises(InvalidInputError, match=r"initial must have shape \(S,\) = \(3,\), got \(2,\)"):
        planning.occupancy(GOOD, np.array([0.5, 0.5]), np.full((2, 3, 2), 0.5))
