"""What the MDPs of the zoo share: parameter checks, and losses from rewards."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, LossMap

Indices = NDArray[np.int64]


def number_between(name: str, value: object, lowest: float = 0.0, highest: float = 1.0) -> float:
    """Return ``value`` as a float in [``lowest``, ``highest``]; raise a sentence that names it otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidInputError(f"{name} must be a number in [{lowest:g}, {highest:g}], got {value!r}")
    if not lowest <= value <= highest:  # also catches NaN
        raise InvalidInputError(f"{name} must lie in [{lowest:g}, {highest:g}], got {value!r}")
    return float(value)


def losses_from_rewards(rewards: ArrayLike, lowest: float, highest: float) -> tuple[Array, LossMap]:
    """Return the losses ``(highest - rewards) / (highest - lowest)`` in [0, 1] and the map that made them.

    Parameters
    ----------
    rewards : array-like
        Expected rewards, all in [``lowest``, ``highest``].
    lowest, highest : float
        Where they agree (constant rewards), the map's lowest is one less: all losses are 0.
    """
    if lowest == highest:
        lowest = highest - 1
    losses = (highest - np.asarray(rewards, dtype=np.float64)) / (highest - lowest)
    # An expectation of rewards within the range leaves it by rounding only.
    return np.clip(losses, 0, 1), LossMap(float(lowest), float(highest))


def line_positions(n: int) -> Array:
    """Return (n, 2) drawing positions from left to right."""
    return np.stack([np.arange(n), np.zeros(n)], axis=1).astype(np.float64)


def grid_positions(rows: int, columns: int) -> Array:
    """Return (rows * columns, 2) drawing positions of a grid's cells, row by row, the first row on top."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.stack([column, -row], axis=1).astype(np.float64)
