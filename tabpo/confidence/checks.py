"""Checks of what users hand to the functions of :mod:`tabpo.confidence`."""

from __future__ import annotations

from collections.abc import Sequence

from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError

SUM_TOLERANCE = 1e-9
"""How far a row may be from summing to 1: what a division by counts leaves is far below, a mistake far above."""


def check_set(centre: Array, radius: Array) -> None:
    """Raise unless ``centre`` and ``radius`` (H, S, A, S[, R]) describe a set of transitions.

    Raises
    ------
    InvalidInputError
        Naming the first entry at fault.
    """
    shape = tuple(centre.shape)
    if len(shape) not in (4, 5) or shape[1] != shape[3]:
        raise InvalidInputError(
            f"centre must have shape (H, S, A, S), with or without a run axis at the end, got {shape}"
        )
    if tuple(radius.shape[:4]) != shape[:4] or radius.ndim not in (4, 5):
        raise InvalidInputError(f"radius must have the shape of centre, {shape}, got {tuple(radius.shape)}")
    check_runs([array for array in (centre, radius) if array.ndim == 5])
    _check_entries(centre, "centre", ~((centre >= 0) & (centre <= 1)), "probabilities must be in [0, 1]")
    _check_entries(radius, "radius", ~(radius >= 0), "a radius must be at least 0")
    sums = namespace(centre).sum(centre, axis=3)
    wrong = ~(namespace(sums).abs(sums - 1.0) <= SUM_TOLERANCE)
    if bool(namespace(sums).any(wrong)):
        where = _first(wrong)
        raise InvalidInputError(
            f"centre sums to {float(sums[where]):.10g} over the next states at {_named(where, 'hsar')}; "
            f"it must sum to 1"
        )


def check_initial(initial: Array, n_states: int) -> None:
    """Raise unless ``initial`` is a distribution over the states.

    Raises
    ------
    InvalidInputError
        Naming the shape, the entry or the sum.
    """
    if tuple(initial.shape) != (n_states,):
        raise InvalidInputError(f"initial must have shape (S,) = ({n_states},), got {tuple(initial.shape)}")
    _check_entries(initial, "initial", ~((initial >= 0) & (initial <= 1)), "probabilities must be in [0, 1]")
    total = float(namespace(initial).sum(initial))
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InvalidInputError(f"initial sums to {total:.10g}; it must sum to 1")


def check_sizes(name: str, array: Array, sizes: tuple[int, ...], letters: str) -> None:
    """Raise unless an array has these sizes, with or without a run axis at the end.

    Raises
    ------
    InvalidInputError
        Naming the array and both shapes.
    """
    n_axes = len(sizes)
    if array.ndim not in (n_axes, n_axes + 1) or tuple(array.shape[:n_axes]) != sizes:
        raise InvalidInputError(
            f"{name} must have shape {letters} = {sizes}, with or without a run axis at the end, "
            f"got {tuple(array.shape)}"
        )


def check_runs(arrays: Sequence[Array]) -> int:
    """Return the number of runs of arrays with a run axis at the end; a length of 1 is shared by all runs.

    Raises
    ------
    InvalidInputError
        If two have different numbers of runs.
    """
    lengths = sorted({int(array.shape[-1]) for array in arrays} - {1})
    if len(lengths) > 1:
        raise InvalidInputError(f"arguments have {' and '.join(map(str, lengths))} runs; they must have the same, or 1")
    return lengths[0] if lengths else 1


def check_values(array: Array, name: str) -> None:
    """Raise if an entry is not finite.

    Raises
    ------
    InvalidInputError
        Naming the first such entry.
    """
    axes = "hsar" if name == "losses" else "hsr"
    _check_entries(array, name, ~namespace(array).isfinite(array), "it must be finite", axes)


def _check_entries(array: Array, name: str, wrong: Array, rule: str, axes: str = "hsaxr") -> None:
    if bool(namespace(array).any(wrong)):
        where = _first(wrong)
        named = f"state {where[0]}" if array.ndim == 1 else _named(where, axes)
        raise InvalidInputError(f"{name} is {float(array[where]):.6g} at {named}; {rule}")


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(index[0]) for index in namespace(mask).nonzero(mask))


def _named(where: tuple[int, ...], axes: str) -> str:
    names = {"h": "h", "s": "s", "a": "a", "x": "next state", "r": "run"}
    named = [names[axis] for axis in axes][: len(where)]
    return f"({', '.join(named)}) = ({', '.join(map(str, where))})"
