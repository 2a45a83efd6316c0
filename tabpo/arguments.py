"""Checks of array arguments of any library: numbers, and rules that every entry keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tabpo.arrays import Array, namespace, on_device_of
from tabpo.errors import InvalidInputError


def numbers(name: str, values: Any, like: Array | None = None) -> Array:
    """Return ``values`` as a float64 array, of the library and on the device of ``like`` if it is given.

    Raises
    ------
    InvalidInputError
        If they are not numbers; ``name`` is what the sentence calls them.
    """
    try:
        if like is not None:
            return on_device_of(like, values)
        if not hasattr(values, "ndim"):
            return np.asarray(values, dtype=np.float64)
        xp = namespace(values)
        return xp.astype(values, xp.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers: {error}") from None


def require(name: str, array: Array, good: Array, rule: str) -> None:
    """Raise a sentence with the first entry of ``array`` that is not ``good``, its index and the rule."""
    xp = namespace(array)
    if bool(xp.all(good)):
        return
    if array.ndim == 0:
        raise InvalidInputError(f"{name} is {float(array)}; {rule}")
    where = first(~good)
    raise InvalidInputError(f"{name} is {float(array[where])} at index {where}; {rule}")


def first(mask: Array) -> tuple[int, ...]:
    """Return the index of the first true entry; there is one."""
    return tuple(int(index[0]) for index in namespace(mask).nonzero(mask))
