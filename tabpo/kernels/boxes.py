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

LANES = 4
"""States whose rows stand side by side in a packed set: as many numbers as fill a 256-bit register."""


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
        sets.lowest[...] = _in_blocks(self.lowest)
        sets.capacity[...] = _in_blocks(self.highest) - sets.lowest
        left = np.minimum(np.maximum(1.0 - sets.lowest.sum(axis=4), 0.0), sets.capacity.sum(axis=4))
        is_state = (np.arange(sets.mass.shape[2] * LANES) < n_states).reshape(-1, 1, LANES)
        sets.mass[...] = np.where(is_state, left, 0.0)
        return sets


def _in_blocks(array: Floats) -> Floats:
    """Return an array (H, S, A, S, N) in the layout of :class:`PackedBoxes`."""
    n_steps, n_states, n_actions, n_next, n_sets = array.shape
    n_blocks = -(-n_states // LANES)
    padded = np.zeros((n_steps, n_blocks * LANES, n_actions, n_next, n_sets))
    padded[:, :n_states] = array
    return padded.reshape(n_steps, n_blocks, LANES, n_actions, n_next, n_sets).transpose(5, 0, 1, 3, 4, 2)


@dataclass(frozen=True, eq=False)
class PackedBoxes:
    """Sets in the layout of the compiled kernels: the rows of :data:`LANES` states and one action side by side.

    Row (s, a) is lane ``s % LANES`` of block ``(s // LANES, a)``. Lanes beyond the last state have no mass.

    Attributes
    ----------
    capacity, lowest : (N, H, S / LANES, A, S, LANES)
        N = R, or N = 1 for sets shared by all runs; the last axis but one is the next state.
    mass : (N, H, S / LANES, A, LANES)
        What is to be handed out: ``1 - sum lowest``, but for rounding no more than there is capacity for.
    """

    capacity: Floats
    lowest: Floats
    mass: Floats

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Capacity and lowest (N, H, blocks S, LANES) and mass (N, H, blocks, LANES), as compiled kernels take them."""
        shape = (*self.mass.shape[:2], -1, LANES)
        return self.capacity.reshape(shape), self.lowest.reshape(shape), self.mass.reshape(shape)

    @property
    def n_actions(self) -> int:
        """A."""
        n_actions: int = self.mass.shape[3]
        return n_actions

    @classmethod
    def empty(cls, n_steps: int, n_states: int, n_actions: int, n_sets: int) -> PackedBoxes:
        """Return sets to be filled in."""
        shape = (n_sets, n_steps, -(-n_states // LANES), n_actions, n_states, LANES)
        return cls(np.zeros(shape), np.zeros(shape), np.zeros((*shape[:4], LANES)))

    def copy(self) -> PackedBoxes:
        """Return the same sets in arrays of their own."""
        return PackedBoxes(self.capacity.copy(), self.lowest.copy(), self.mass.copy())

    def where(self, n: Any, h: Any, s: Any, a: Any) -> NDArray[np.int64]:
        """Return set, step, block and lane, (rows, 4), of the rows (set, step, state, action) in :attr:`arrays`."""
        return np.stack([n, h, s // LANES * self.n_actions + a, s % LANES], axis=1)

    @property
    def dense(self) -> Boxes:
        """The same sets in the layout of the formulas."""
        n_sets, n_steps, n_blocks, n_actions, n_states, _ = self.lowest.shape

        def unpacked(array: Floats) -> Floats:
            states = array.transpose(1, 2, 5, 3, 4, 0)
            by_state = states.reshape(n_steps, n_blocks * LANES, n_actions, n_states, n_sets)
            return np.ascontiguousarray(by_state[:, :n_states])

        return Boxes(unpacked(self.lowest), unpacked(self.lowest + self.capacity))
