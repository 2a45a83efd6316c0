"""The MDP zoo: valid for every parameter, closed forms and published numbers, errors that are sentences."""

from __future__ import annotations

import inspect
import typing
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabpo.environments import BernoulliLosses
from tabpo.environments.zoo import (
    MDPS,
    combination_lock,
    deep_sea,
    exploration_chain,
    grid_world,
    layered,
    n_chain,
    random_mdp,
    river_swim,
    two_state,
)
from tabpo.errors import InvalidInputError
from tabpo.mdp import TabularMDP
from tests import reference_loop


def optimum(mdp: TabularMDP) -> tuple[np.ndarray, float]:
    """Backward induction: (greedy actions (H, S), least expected loss)."""
    values = np.zeros(mdp.n_states)
    actions = np.zeros((mdp.horizon, mdp.n_states), dtype=int)
    for h in reversed(range(mdp.horizon)):
        q_values = mdp.losses[h] + mdp.transitions[h] @ values
        actions[h], values = q_values.argmin(1), q_values.min(1)
    return actions, float(mdp.initial @ values)


def reached(mdp: TabularMDP) -> np.ndarray:
    """Which states (H, S) some policy can be in at each step."""
    possible = np.empty((mdp.horizon, mdp.n_states), dtype=bool)
    possible[0] = mdp.initial > 0
    for h in range(mdp.horizon - 1):
        possible[h + 1] = (mdp.transitions[h][possible[h]] > 0).any((0, 1))
    return possible


def best_return(mdp: TabularMDP) -> float:
    """The best expected return in the reward units of the MDP's loss map."""
    return mdp.horizon * mdp.loss_map.highest - mdp.loss_map.scale * optimum(mdp)[1]


def check_valid(mdp: TabularMDP, shape: tuple[int, int, int]) -> None:
    assert mdp.shape == shape
    np.testing.assert_allclose(mdp.transitions.sum(-1), 1, atol=1e-12)
    assert (mdp.transitions >= 0).all()
    assert mdp.losses.shape == shape
    assert ((mdp.losses >= 0) & (mdp.losses <= 1)).all()
    assert mdp.initial.sum() == 1
    assert mdp.positions.shape == (shape[1], 2)
    assert len({tuple(position) for position in mdp.positions.round(9)}) == shape[1]


small = st.integers(1, 5)
seeds = st.integers(0, 1000)
fractions = st.floats(0, 1)


@given(n_states=small, n_actions=small, horizon=small, stationary=st.booleans(), seed=seeds, data=st.data())
@settings(max_examples=60, deadline=None)
def test_random_mdps_are_valid_and_branch_as_asked(n_states, n_actions, horizon, stationary, seed, data):
    branching = data.draw(st.none() | st.integers(1, n_states))
    mdp = random_mdp(n_states, n_actions, horizon, branching, stationary, seed=seed)
    check_valid(mdp, (horizon, n_states, n_actions))
    assert ((mdp.transitions > 0).sum(-1) == (branching or n_states)).all()
    if stationary:
        assert (mdp.transitions == mdp.transitions[0]).all()
        assert (mdp.losses == mdp.losses[0]).all()
    again = random_mdp(n_states, n_actions, horizon, branching, stationary, seed=seed)
    assert np.array_equal(again.transitions, mdp.transitions)
    assert np.array_equal(again.losses, mdp.losses)


@given(horizon=small, width=small, n_actions=small, seed=seeds, data=st.data())
@settings(max_examples=40, deadline=None)
def test_layered_mdps_are_loop_free(horizon, width, n_actions, seed, data):
    branching = data.draw(st.none() | st.integers(1, width))
    mdp = layered(horizon, width, n_actions, branching, seed=seed)
    check_valid(mdp, (horizon, 1 + (horizon - 1) * width, n_actions))
    layer = (np.arange(mdp.n_states) + width - 1) // width
    assert (layer[np.nonzero(reached(mdp))[1]] == np.nonzero(reached(mdp))[0]).all()
    moving = mdp.transitions[0][layer < horizon - 1]
    assert ((moving > 0).sum(-1) == (branching or width)).all()


@given(horizon=small, n_actions=small, seed=seeds, n_states=st.integers(2, 7), size=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_chains_and_seas_are_valid(horizon, n_actions, seed, n_states, size):
    check_valid(n_chain(n_states, horizon), (horizon, n_states, 2))
    check_valid(river_swim(n_states, horizon), (horizon, n_states, 2))
    check_valid(combination_lock(horizon, n_actions, seed), (horizon, horizon + 1, n_actions))
    check_valid(exploration_chain(horizon), (horizon, 2, 2))
    check_valid(deep_sea(size, seed=seed), (size, size * size, 2))


@given(rows=small, columns=small, horizon=small, slip=fractions, data=st.data())
@settings(max_examples=60, deadline=None)
def test_grids_are_valid(rows, columns, horizon, slip, data):
    cells = [list(cell) for cell in product(range(rows), range(columns))]
    walls = data.draw(st.lists(st.sampled_from(cells), max_size=4).map(lambda w: [c for c in w if c != cells[-1]]))
    start = data.draw(st.sampled_from([cell for cell in cells if cell not in walls]))
    mdp = grid_world(rows, columns, horizon, slip, walls, start)
    check_valid(mdp, (horizon, rows * columns - len({tuple(wall) for wall in walls}), 4))
    assert mdp.state_labels[int(mdp.initial.argmax())] == f"{start[0]},{start[1]}"


@given(horizon=small, n_actions=small, switch=fractions, share=fractions, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_two_state_mdp_is_valid(horizon, n_actions, switch, share, seed):
    check_valid(two_state(horizon, n_actions, switch, share * (1 - switch), seed), (horizon, 2, n_actions))


def test_random_rows_are_dirichlet():
    """Each entry of a uniform row on 4 successors is Beta(1, 3): mean 1/4, variance 3/80.

    The mean is exact, since rows sum to 1. The variance of 24,000 entries has a standard error of 0.0004;
    the bound is 5 of these.
    """
    rows = random_mdp(20, 5, 60, branching=4, seed=3).transitions
    entries = rows[rows > 0]
    assert entries.mean() == pytest.approx(0.25)
    assert entries.var() == pytest.approx(3 / 80, abs=0.002)
    # Each state is as likely a successor: 24,000 / 20 = 1,200 +- 31 each (one standard error).
    assert np.abs((rows > 0).sum((0, 1, 2)) - 1200).max() < 4.5 * 31


@pytest.mark.parametrize("concentration", [0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("make", [layered, random_mdp])
def test_concentration_is_that_of_the_dirichlet_law(make, concentration):
    """Entries of a row on 3 successors are Beta(c, 2c): mean 1/3, which is exact, and variance 2 / 9 / (3c + 1).

    Their kurtosis is at most 3, so that the variance of the entries of 2,950 rows or more has a relative standard
    error of at most 2.6 %; the bound is 5 of these.
    """
    if make is layered:
        rows = layered(100, width=3, n_actions=10, concentration=concentration).transitions[0, :-3]
    else:
        rows = random_mdp(3, 10, horizon=100, concentration=concentration).transitions
    entries = rows[rows > 0]
    assert entries.size == 3 * rows[..., 0].size
    assert entries.mean() == pytest.approx(1 / 3)
    assert entries.var() == pytest.approx(2 / 9 / (3 * concentration + 1), rel=0.13)


def test_the_mdp_of_the_best_of_both_worlds_experiments():
    """Layers of 1, 3 and 3 states, 3 actions, Dirichlet(2) rows; one action of mean 0.35 per state, others 0.65."""
    mdp = layered(horizon=3, width=3, n_actions=3, concentration=2, seed=4)
    assert mdp.shape == (3, 7, 3)
    assert [int(layer.sum()) for layer in reached(mdp)] == [1, 3, 3]
    assert (mdp.transitions[0, 0, :, 1:4] > 0).all()
    assert (mdp.transitions[1, 1:4, :, 4:7] > 0).all()
    losses = BernoulliLosses(gap=0.3, base=0.65).realise(mdp, 1, np.random.default_rng(0)).mean(0)
    np.testing.assert_allclose(np.sort(losses, -1), np.broadcast_to([0.35, 0.65, 0.65], losses.shape), atol=1e-15)
    # The same law in the fewest states: all three exist at each step.
    small = random_mdp(3, 3, horizon=3, concentration=2)
    assert [int(layer.sum()) for layer in reached(small)] == [1, 3, 3]


def test_seeds_differ():
    for make in (random_mdp, layered, combination_lock, deep_sea):
        first, second = make(seed=1), make(seed=2)
        assert not np.array_equal(first.transitions, second.transitions)


# The long-run gain of going right, from the CDPO note (section 8.1).
GAINS = {4: 0.11106, 5: 0.10360, 8: 0.08351, 10: 0.07347, 12: 0.06540, 15: 0.05586}


@pytest.mark.parametrize(("n_states", "gain"), GAINS.items())
def test_n_chain_gain_of_always_right(n_states, gain):
    mdp = n_chain(n_states, horizon=1)
    moves = mdp.transitions[0, :, 1]
    stationary = np.linalg.lstsq(
        np.vstack([moves.T - np.eye(n_states), np.ones(n_states)]), np.eye(n_states + 1)[-1], rcond=None
    )[0]
    rewards = mdp.loss_map.highest - mdp.loss_map.scale * mdp.losses[0, :, 1]
    assert stationary @ rewards == pytest.approx(gain, abs=6e-6)


@pytest.mark.parametrize(("n_states", "value"), [(4, 0.809), (8, 0.456), (15, 0.201)])
def test_n_chain_discounted_value_of_always_right(n_states, value):
    mdp = n_chain(n_states, horizon=1)
    rewards = mdp.loss_map.highest - mdp.loss_map.scale * mdp.losses[0]
    values = np.zeros(n_states)
    for _ in range(400):
        q_values = rewards + 0.9 * mdp.transitions[0] @ values
        values = q_values.max(1)
    assert (q_values.argmax(1) == 1).all()
    assert values[0] == pytest.approx(value, abs=6e-4)


@pytest.mark.parametrize("n_states", [3, 4, 8, 15])
def test_n_chain_always_right_is_optimal_far_from_the_end(n_states):
    actions, _ = optimum(n_chain(n_states, horizon=40 * n_states))
    assert (actions[0] == 1).all()


def test_river_swim_numbers():
    """Against the published figure, entry by entry, and its two pure policies in closed form."""
    mdp = river_swim(horizon=20)
    left, right = mdp.transitions[0, :, 0], mdp.transitions[0, :, 1]
    assert np.array_equal(left, np.eye(6)[[0, 0, 1, 2, 3, 4]])
    expected = 0.6 * np.eye(6) + 0.35 * np.eye(6, k=1) + 0.05 * np.eye(6, k=-1)
    expected[0], expected[5] = [0.4, 0.6, 0, 0, 0, 0], [0, 0, 0, 0, 0.4, 0.6]
    np.testing.assert_allclose(right, expected, atol=1e-15)
    # In 5 steps the far end is out of reach: staying left pays 0.005 a step.
    assert best_return(river_swim(horizon=5)) == pytest.approx(5 * 0.005)
    # Long-run gain of swimming right, by detailed balance of the birth-death chain.
    weights = np.array([1, 0.6 / 0.05, 0, 0, 0, 0])
    for s in (2, 3, 4):
        weights[s] = weights[s - 1] * 0.35 / 0.05
    weights[5] = weights[4] * 0.35 / 0.4
    gain = weights[5] / weights.sum()
    difference = best_return(river_swim(horizon=801)) - best_return(river_swim(horizon=800))
    assert difference == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5, 10])
@pytest.mark.parametrize("randomize_actions", [True, False])
def test_deep_sea_best_return(size, randomize_actions):
    mdp = deep_sea(size, randomize_actions, seed=7)
    assert best_return(mdp) == pytest.approx(0.99)
    actions, _ = optimum(mdp)
    state = 0
    for h in range(size - 1):
        successors = mdp.transitions[h, state, actions[h, state]]
        state = int(successors.argmax())
        assert state == (h + 1) * (size + 1)
        assert successors[state] == 1
    if not randomize_actions:
        assert (actions[np.arange(size), np.arange(size) * (size + 1)] == 1).all()
    # At step h the diver is in row h, and not right of the diagonal.
    steps, states = np.nonzero(reached(mdp))
    rows, columns = np.divmod(states, size)
    assert (rows == steps).all()
    assert (columns <= rows).all()


def test_deep_sea_returns_of_all_action_sequences():
    """Every sequence of actions, against the rule: 1 for all rights, minus 0.01 / N for each."""
    mdp = deep_sea(4, randomize_actions=False)
    for choice in product((0, 1), repeat=4):
        state, total = 0, 0.0
        for h, action in enumerate(choice):
            total += mdp.loss_map.highest - mdp.loss_map.scale * mdp.losses[h, state, action]
            state = int(mdp.transitions[h, state, action].argmax())
        expected = (sum(choice) == 4) - 0.01 / 4 * sum(choice)
        assert total == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("horizon", "n_actions"), [(1, 1), (1, 3), (4, 1), (5, 3)])
def test_combination_lock_values(horizon, n_actions):
    mdp = combination_lock(horizon, n_actions, seed=5)
    assert optimum(mdp)[1] == pytest.approx(horizon - 1)
    distribution, total = mdp.initial, 0.0
    for h in range(horizon):
        total += distribution @ mdp.losses[h].mean(1)
        distribution = distribution @ mdp.transitions[h].mean(1)
    assert total == pytest.approx(horizon - n_actions ** -float(horizon))


def chain_losses(mdp: TabularMDP) -> list[float]:
    """What it costs to leave at each step, and at last to stay: by evaluation of these policies."""
    choices = np.triu(np.ones((mdp.horizon + 1, mdp.horizon), dtype=int))  # row j leaves from step j on
    return [
        reference_loop.expected_loss(mdp.transitions, mdp.initial, np.eye(2)[np.stack([choice] * 2, -1)], mdp.losses)
        for choice in choices
    ]


def test_exploration_chain_costs_a_little_more_than_to_leave_it_until_the_end():
    mdp = exploration_chain()
    assert mdp.shape == (6, 2, 2)
    assert optimum(mdp)[1] == pytest.approx(2.5, abs=1e-14)
    assert (optimum(mdp)[0][:, 0] == 0).all()
    # Leaving at once, at the second step, ..., at the last one, and not at all.
    np.testing.assert_allclose(chain_losses(mdp), [2.75, 2.8, 2.85, 2.9, 2.95, 3.0, 2.5], atol=1e-14)
    # The uniform policy's advantages favour leaving, but for the last steps.
    values = np.zeros(2)
    prefers = []
    for h in reversed(range(6)):
        q_values = mdp.losses[h] + mdp.transitions[h] @ values
        values = q_values.mean(1)
        prefers.append(int(q_values[0].argmin()))
    assert prefers[::-1] == [1, 1, 1, 0, 0, 0]


@given(horizon=st.integers(1, 12), loss=st.floats(0, 1, allow_subnormal=False), share=st.floats(0, 0.99))
@settings(max_examples=40, deadline=None)
def test_exploration_chain_is_best_stayed_on(horizon, loss, share):
    temptation = share * loss / max(1, horizon - 1)
    mdp = exploration_chain(horizon, loss, temptation)
    expected = [horizon * loss - (horizon - 1 - j) * temptation for j in range(horizon)]
    np.testing.assert_allclose(chain_losses(mdp), [*expected, (horizon - 1) * loss], atol=1e-13)
    assert optimum(mdp)[1] == pytest.approx((horizon - 1) * loss, abs=1e-13)


def test_grid_world_without_slip_takes_the_shortest_way():
    # A wall across the second column with its only gap at the bottom: 3 down, 2 right, 3 up.
    mdp = grid_world(4, 3, 20, slip=0, walls=[[0, 1], [1, 1], [2, 1]], goal=[0, 2])
    assert mdp.n_states == 9
    assert optimum(mdp)[1] == 8
    assert optimum(grid_world(4, 3, 20, slip=0, goal=[0, 2]))[1] == 2
    # A horizon too short for the way, and a start that is the goal.
    assert optimum(grid_world(4, 4, 5, slip=0))[1] == 5
    assert optimum(grid_world(1, 1, 3))[1] == 0


def test_grid_world_slips_to_both_sides():
    mdp = grid_world(3, 3, 5, slip=0.2, goal=[0, 0], start=[1, 1])
    centre = 4
    np.testing.assert_allclose(mdp.transitions[0, centre, 0, [1, 3, 5]], [0.8, 0.1, 0.1])  # up, left, right
    # From the corner (2, 2) a move right or down stays, one slip of it too.
    np.testing.assert_allclose(mdp.transitions[0, 8, 1, [8, 5]], [0.9, 0.1])
    # One row, sideways slips stay: the number of steps to go n cells is n geometric waits.
    corridor = grid_world(1, 4, 400, slip=0.25)
    assert optimum(corridor)[1] == pytest.approx(3 / 0.75, abs=1e-9)


def test_two_state_best_occupancy():
    mdp = two_state(30, 4, switch=0.1, advantage=0.05, seed=2)
    bad, total = 1.0, 0.0
    for _ in range(30):
        total += bad
        bad = bad * (1 - 0.15) + (1 - bad) * 0.1
    assert optimum(mdp)[1] == pytest.approx(total)
    assert len({int(two_state(2, 4, seed=seed).transitions[0, 0, :, 1].argmax()) for seed in range(20)}) > 1


BAD_INPUTS = [
    (random_mdp, {"n_states": 0}, "n_states must be an integer of at least 1, got 0"),
    (random_mdp, {"n_states": 2.5}, "n_states must be an integer"),
    (random_mdp, {"n_states": 4, "branching": 5}, "branching must be at most n_states = 4, got 5"),
    (random_mdp, {"seed": -1}, "seed must be an integer of at least 0, got -1"),
    (layered, {"width": 2, "branching": 3}, "branching must be at most width = 2, got 3"),
    (layered, {"horizon": True}, "horizon must be an integer"),
    (layered, {"concentration": 0}, "concentration must be a number of at least 0.1, got 0"),
    (random_mdp, {"concentration": "2"}, "concentration must be a number of at least 0.1, got '2'"),
    (exploration_chain, {"horizon": 0}, "horizon must be an integer of at least 1, got 0"),
    (exploration_chain, {"loss": 1.5}, r"loss must lie in \[0, 1\], got 1.5"),
    (exploration_chain, {"temptation": 0.6}, r"temptation must lie in \[0, 0.5\], got 0.6"),
    (exploration_chain, {"horizon": 12}, r"temptation must be below loss / \(horizon - 1\) = 0.0454545, .* got 0.05"),
    (exploration_chain, {"horizon": 11}, r"temptation must be below .* = 0.05, .* got 0.05"),
    (n_chain, {"n_states": 1}, "n_states must be an integer of at least 2, got 1"),
    (river_swim, {"n_states": 1}, "n_states must be an integer of at least 2"),
    (river_swim, {"horizon": 0}, "horizon must be an integer of at least 1"),
    (combination_lock, {"n_actions": 0}, "n_actions must be an integer of at least 1"),
    (deep_sea, {"size": 0}, "size must be an integer of at least 1"),
    (deep_sea, {"move_cost": 2}, r"move_cost must lie in \[0, 1\], got 2"),
    (deep_sea, {"move_cost": "a"}, r"move_cost must be a number in \[0, 1\], got 'a'"),
    (grid_world, {"slip": float("nan")}, r"slip must lie in \[0, 1\], got nan"),
    (grid_world, {"walls": [[0, 4]]}, r"a wall at \[0, 4\] lies outside the grid of 4 rows and 4 columns"),
    (grid_world, {"walls": [3]}, "a wall must be a cell"),
    (grid_world, {"walls": [[1, 0.5]]}, r"two integers, got \[1, 0.5\]"),
    (grid_world, {"walls": [[0, 0]]}, r"the start at \[0, 0\] is a wall"),
    (grid_world, {"goal": [1, 1], "walls": [(1, 1)]}, r"the goal at \[1, 1\] is a wall"),
    (two_state, {"switch": 0.7, "advantage": 0.5}, r"advantage must lie in \[0, 0.3\], got 0.5"),
]


@pytest.mark.parametrize(("make", "parameters", "sentence"), BAD_INPUTS)
def test_bad_inputs_are_named(make, parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make(**parameters)


@pytest.mark.parametrize("name", sorted(MDPS))
def test_registry_entries_can_be_used_by_configs(name):
    make = MDPS[name]
    hints = typing.get_type_hints(make)
    parameters = inspect.signature(make).parameters
    assert set(parameters) | {"return"} == set(hints)
    assert hints["return"] is TabularMDP
    summary = inspect.getdoc(make).splitlines()
    assert summary[0].endswith((".", "..."))
    assert summary[1] == ""
    if name != "gymnasium":  # it needs an id
        assert make().losses is not None
