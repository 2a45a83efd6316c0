"""Grids: deep sea and a grid world with walls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tabpo.environments.zoo_shared import grid_positions, losses_from_rewards, number_between
from tabpo.errors import InvalidInputError
from tabpo.mdp import TabularMDP, positive_integer
from tabpo.streams import Purpose, stream

Cell = tuple[int, int]
# Up, right, down, left, as (rows, columns); neighbours in this cycle are perpendicular.
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def deep_sea(size: int = 10, randomize_actions: bool = True, move_cost: float = 0.01, seed: int = 0) -> TabularMDP:
    """Deep sea: a diver sinks one row per step; only going right at every step finds the treasure.

    The cells of an N x N grid are the states (row * N + column), the horizon is N, and an episode starts in
    the top left cell. Each step goes one row down and one column left (reward 0) or right (reward
    ``-move_cost / N``); going right in the bottom right cell pays 1 on top. The best return is ``1 -
    move_cost``, with the default 0.99. Rewards are mapped to losses from the range [-move_cost / N, 1 -
    move_cost / N], so that regret is the same in both.

    Parameters
    ----------
    size : int, at least 1
        N.
    randomize_actions : bool
        Which of the two actions goes right is drawn for each cell; otherwise action 1 does everywhere.
    move_cost : float in [0, 1]
    seed : int, at least 0

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Osband, Van Roy, Russo, Wen (2019), "Deep exploration via randomized value functions"; with this move
    cost and action mapping: Osband et al. (2020), "Behaviour suite for reinforcement learning".
    """
    size = positive_integer("size", size)
    cost = number_between("move_cost", move_cost) / size
    n_states = size * size
    right = np.ones(n_states, dtype=np.int64)
    if randomize_actions:
        right = stream(seed, Purpose.MDP).integers(2, size=n_states)
    states = np.arange(n_states)
    row, column = np.divmod(states, size)
    transitions = np.zeros((n_states, 2, n_states))
    for action, step in ((right, 1), (1 - right, -1)):
        # From the bottom row, where an episode ends, the diver stays in the row.
        below = np.minimum(row + 1, size - 1) * size + np.clip(column + step, 0, size - 1)
        transitions[states, action, below] = 1
    rewards = np.zeros((n_states, 2))
    rewards[states, right] = -cost
    rewards[-1, right[-1]] += 1
    losses, loss_map = losses_from_rewards(rewards, -cost, 1 - cost)
    return TabularMDP.stationary(
        transitions,
        np.eye(n_states)[0],
        size,
        losses,
        name=f"DeepSea({size})",
        state_labels=_labels(divmod(s, size) for s in range(n_states)),
        positions=grid_positions(size, size),
        loss_map=loss_map,
    )


def grid_world(
    rows: int = 4,
    columns: int = 4,
    horizon: int = 20,
    slip: float = 0.2,
    walls: list[list[int]] | None = None,
    start: list[int] | None = None,
    goal: list[int] | None = None,
) -> TabularMDP:
    """Grid world: four actions that slip sideways, walls, loss 1 for each step until the absorbing goal.

    Actions are up, right, down, left (0 to 3). A move goes where it was meant with probability ``1 - slip``
    and to each of the two sides with ``slip / 2``; a move into a wall or over the edge stays. Cells are (row,
    column), the first row on top; the cells that are not walls are the states, row by row.

    Parameters
    ----------
    rows, columns, horizon : int, at least 1
    slip : float in [0, 1]
    walls : list of [row, column], optional
    start, goal : [row, column], optional
        Default: the top left and the bottom right cell.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range, a cell lies outside the grid, or the start or the goal is a wall.

    References
    ----------
    Russell, Norvig, "Artificial intelligence: a modern approach", chapter on sequential
    decisions (the 4 x 3 world).
    """
    rows, columns = positive_integer("rows", rows), positive_integer("columns", columns)
    slip = number_between("slip", slip)
    blocked = {_cell("a wall", wall, rows, columns) for wall in ([] if walls is None else walls)}
    first = _open_cell("start", start if start is not None else (0, 0), rows, columns, blocked)
    target = _open_cell("goal", goal if goal is not None else (rows - 1, columns - 1), rows, columns, blocked)
    cells = [divmod(i, columns) for i in range(rows * columns) if divmod(i, columns) not in blocked]
    index = {cell: s for s, cell in enumerate(cells)}
    transitions = np.zeros((len(cells), 4, len(cells)))
    for s, (row, column) in enumerate(cells):
        ends = [index.get((row + down, column + across), s) for down, across in MOVES]
        for action in range(4):
            for turn, probability in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
                transitions[s, action, ends[(action + turn) % 4]] += probability
    end = index[target]
    transitions[end] = np.eye(len(cells))[end]
    losses = np.ones((len(cells), 4))
    losses[end] = 0
    return TabularMDP.stationary(
        transitions,
        np.eye(len(cells))[index[first]],
        horizon,
        losses,
        name=f"Grid({rows}, {columns})",
        state_labels=_labels(cells),
        action_labels=("up", "right", "down", "left"),
        positions=grid_positions(rows, columns)[[row * columns + column for row, column in cells]],
    )


def _labels(cells: Iterable[Cell]) -> tuple[str, ...]:
    return tuple(f"{row},{column}" for row, column in cells)


def _cell(what: str, cell: Any, rows: int, columns: int) -> Cell:
    is_pair = isinstance(cell, Sequence) and not isinstance(cell, str) and len(cell) == 2
    if not is_pair or not all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in cell):
        raise InvalidInputError(f"{what} must be a cell [row, column] of two integers, got {cell!r}")
    row, column = (int(i) for i in cell)
    if not (0 <= row < rows and 0 <= column < columns):
        raise InvalidInputError(
            f"{what} at {[row, column]} lies outside the grid of {rows} rows and {columns} columns "
            "(cells are [row, column], counted from 0)"
        )
    return row, column


def _open_cell(what: str, cell: Sequence[int], rows: int, columns: int, blocked: set[Cell]) -> Cell:
    found = _cell(f"the {what}", cell, rows, columns)
    if found in blocked:
        raise InvalidInputError(f"the {what} at {list(found)} is a wall; move it or remove the wall")
    return found
