"""Sets of transition probabilities with bounds on every entry, prepared for the kernels.

Row (h, s, a) of a set is ``{q in the simplex : lowest <= q <= highest}``, a box cut with the simplex. The extreme
expectation ``max_q <q, f>`` starts at ``lowest``, whose missing mass ``1 - sum lowest`` goes to the entries in the
order of decreasing ``f``, to each up to its capacity ``highest - lowest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabpo.arrays import Array, namespace

Floats = NDArray[np.float64]

LANES = 8
"""The rows of a packed set are a multiple of it, filled up with rows that have no mass to hand out."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Bounds in the layout of the formulas, arrays of any library.

    Attributes
    ----------
    lowest, highest : (H, S, A, S, R), or (H, S, A, S, 1) for sets shared by all runs
        ``0 <= lowest <= highest <= 1``; between them lies a distribution.
    """

    lowest: Array
    highest: Array

    @classmethod
    def around(cls, centre: Array, radius: Array) -> Boxes:
        """Return the distributions within ``radius`` of ``centre`` entrywise."""
        xp = namespace(centre)
        low, high = centre - radius, centre + radius
        return cls(xp.where(low > 0, low, xp.zeros_like(low)), xp.where(high < 1, high, xp.ones_like(high)))

    @property
    def packed(self) -> PackedBoxes:
        """The same sets for the compiled kernels (NumPy arrays only)."""
        n_steps, n_states, n_actions, _, n_sets = self.lowest.shape
        sets = PackedBoxes.empty(n_steps, n_states, n_actions, n_sets)
        for lowest, highest, h, n in _steps_and_sets(self.lowest, self.highest):
            sets.set_step(n, h, lowest, highest)
        return sets


def _steps_and_sets(lowest: Any, highest: Any) -> Any:
    for h in range(lowest.shape[0]):
        for n in range(lowest.shape[-1]):
            yield lowest[h, ..., n], highest[h, ..., n], h, n


@dataclass(frozen=True, eq=False)
class PackedBoxes:
    """Sets in the layout of the compiled kernels: the rows (s, a) of one set and step stand side by side.

    Row (s, a) has the index ``a S + s``; rows are filled up to a multiple of :data:`LANES`.

    Attributes
    ----------
    capacity, lowest : (N, H, S, rows)
        N = R, or N = 1 for sets shared by all runs; the third axis is the next state.
    mass : (N, H, rows)
        ``1 - sum lowest``, what is to be handed out.
    n_actions : int
    """

    capacity: Floats
    lowest: Floats
    mass: Floats
    n_actions: int

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """The three arrays, as the compiled kernels take them."""
        return self.capacity, self.lowest, self.mass

    @classmethod
    def empty(cls, n_steps: int, n_states: int, n_actions: int, n_sets: int) -> PackedBoxes:
        """Return sets to be filled in."""
        n_rows = -(-n_states * n_actions // LANES) * LANES
        shape = (n_sets, n_steps, n_states, n_rows)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros((n_sets, n_steps, n_rows)), n_actions)

    def copy(self) -> PackedBoxes:
        """Return the same sets in arrays of their own."""
        return PackedBoxes(self.capacity.copy(), self.lowest.copy(), self.mass.copy(), self.n_actions)

    def set_step(self, n: int, h: int, lowest: Floats, highest: Floats) -> None:
        """Put in the bounds (S, A, S) of one set and step."""
        n_states, n_actions, _ = lowest.shape
        rows = n_states * n_actions
        by_row = lowest.transpose(2, 1, 0).reshape(n_states, rows)
        self.lowest[n, h, :, :rows] = by_row
        self.capacity[n, h, :, :rows] = highest.transpose(2, 1, 0).reshape(n_states, rows) - by_row
        self.mass[n, h, :rows] = np.maximum(1.0 - by_row.sum(axis=0), 0.0)

    @property
    def dense(self) -> Boxes:
        """The same sets in the layout of the formulas."""
        n_sets, n_steps, n_states, _ = self.lowest.shape
        shape = (n_sets, n_steps, n_states, self.n_actions, n_states)
        rows = n_states * self.n_actions

        def unpacked(array: Floats) -> Floats:
            return np.ascontiguousarray(array[..., :rows].reshape(shape).transpose(1, 4, 3, 2, 0))

        return Boxes(unpacked(self.lowest), unpacked(self.lowest + self.capacity))
