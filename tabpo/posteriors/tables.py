"""A table of cells for each run: its settings, where its observations go, whose numbers it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer

Floats: TypeAlias = NDArray[np.float64]
Cells: TypeAlias = int | Sequence[int]
Generators: TypeAlias = np.random.Generator | Sequence[np.random.Generator]

SMALLEST, LARGEST = 1e-50, 1e50
"""Of settings and observations: their squares, sums and quotients stay finite."""


class Table:
    """The axes of a posterior's arrays: cells, then runs.

    Parameters
    ----------
    cells : tuple of int
    n_runs : int or None
        None: one run, and no run axis for users.

    Attributes
    ----------
    cells : tuple of int
    n_runs : int
    whole : tuple of int
        (*cells, n_runs), the shape of arrays inside.
    shape : tuple of int
        What users see: ``whole``, or ``cells`` where there is no run axis.
    """

    def __init__(self, cells: tuple[int, ...], n_runs: int | None) -> None:
        self.cells = cells
        self.has_runs = n_runs is not None
        self.n_runs = 1 if n_runs is None else positive_integer("n_runs", n_runs)
        self.whole = (*cells, self.n_runs)
        self.shape = self.whole if self.has_runs else cells

    def setting(self, name: str, values: ArrayLike, least: float = SMALLEST) -> Floats:
        """Return a prior's setting, broadcast to ``whole``; raise if it does not fit or lies outside its range."""
        try:
            array = np.array(values, dtype=np.float64)
            setting = np.broadcast_to(array, self.shape).reshape(self.whole)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name} must be numbers that broadcast to {self.shape}: {error}") from None
        good = (array >= least) & (array <= LARGEST)
        if not good.all():
            raise InvalidInputError(f"{name} is {array[~good].flat[0]}; it must lie in [{least:g}, {LARGEST:g}]")
        return setting

    def locate(self, arrays: Sequence[ArrayLike], with_values: bool = False) -> tuple[NDArray[np.intp], Floats]:
        """Return where observations stand in an array of shape ``whole`` read as one axis, in their order.

        Parameters
        ----------
        arrays : one of int per axis of the cells, then the values if there are any

        Returns
        -------
        at : (n_observations,)
        values : (n_observations,), or (0,) without any
        """
        n_axes = len(self.cells)
        if len(arrays) != n_axes + with_values:
            raise InvalidInputError(
                f"an observation in cells of shape {self.cells} is {n_axes} index arrays"
                f"{' and one of values' if with_values else ''}, got {len(arrays)} arrays"
            )
        indices = [_integers(axis, array, self.cells[axis]) for axis, array in enumerate(arrays[:n_axes])]
        runs = np.arange(self.n_runs) if self.has_runs else np.array(0)
        together = _broadcast([*indices, runs, *map(_numbers, arrays[n_axes:])])
        if not together or (self.has_runs and together[0].shape[-1] != self.n_runs):
            raise InvalidInputError(
                f"the arrays of an observation, of shapes {[np.shape(array) for array in arrays]}, do not broadcast"
                + (f" to (..., R) with R = {self.n_runs} runs" if self.has_runs else "")
            )
        at = np.ravel_multi_index(together[: n_axes + 1], self.whole)
        return np.ravel(at), together[-1].reshape(-1) if with_values else np.empty(0)

    def generators(self, rng: Generators) -> list[np.random.Generator]:
        """Return the runs' generators; raise if there is not one for each run, each its own."""
        given = [rng] if isinstance(rng, np.random.Generator) else list(rng) if isinstance(rng, Sequence) else [None]
        if not all(isinstance(generator, np.random.Generator) for generator in given):
            raise InvalidInputError("rng must be a numpy.random.Generator, or a list of one for each run")
        if len({id(generator) for generator in given}) != len(given) or len(given) != self.n_runs:
            raise InvalidInputError(
                f"rng must be {self.n_runs} different generators, one for each run, got {len(given)}: a run's numbers "
                "must not depend on the runs beside it"
            )
        return given

    def empty(self, n: int) -> Floats:
        """Return memory for n draws of each run, (R, n, *cells)."""
        return np.empty((self.n_runs, n, *self.cells))

    def run_last(self, draws: Floats) -> Floats:
        """Return draws (R, n, *cells) as users see them: (n, *cells, R), or (n, *cells)."""
        return np.moveaxis(draws, 0, -1) if self.has_runs else draws[0]


def sizes(cells: Cells) -> tuple[int, ...]:
    """Return the shape of the cells; raise if an entry is no positive integer."""
    given = (cells,) if isinstance(cells, (int, np.integer)) else tuple(cells)
    return tuple(positive_integer("an entry of cells", size) for size in given)


def _broadcast(arrays: list[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Return the arrays, broadcast against each other, or nothing if they do not fit."""
    try:
        return np.broadcast_arrays(*arrays)
    except ValueError:
        return ()


def _integers(axis: int, values: ArrayLike, size: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"index array {axis} of an observation must hold integers, got {array.dtype}")
    outside = (array < 0) | (array >= size)
    if outside.any():
        raise InvalidInputError(
            f"index array {axis} of an observation holds {array[outside].flat[0]}; it must lie in 0 .. {size - 1}"
        )
    return array.astype(np.int64, copy=False)


def _numbers(values: ArrayLike) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"observed values must be numbers: {error}") from None
    wrong = ~(np.abs(array) <= LARGEST)
    if wrong.any():
        raise InvalidInputError(f"an observed value is {array[wrong].flat[0]}; it must be at most {LARGEST:g} in size")
    return array
