"""Which array library an array belongs to. Nothing else in the package asks.

Formulas are written once against the Python array API standard and run on NumPy, CuPy and torch arrays alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from tabpo.errors import MissingPartError

Array = Any
"""An array of any supported library; shapes are given in the docstrings."""


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by the arrays; scalars and None are passed over.

    Raises
    ------
    TypeError
        If the arrays belong to different libraries.
    """
    if all(type(array) is np.ndarray for array in arrays):
        return np
    return array_namespace(*(array for array in arrays if hasattr(array, "ndim") and not isinstance(array, np.generic)))


def library(name: str) -> Any:
    """Return the array-API namespace of ``"numpy"`` or ``"cupy"``.

    Raises
    ------
    MissingPartError
        If CuPy is not installed or finds no GPU; the sentence says what to do.
    """
    if name == "numpy":
        return np
    try:
        import cupy
        from array_api_compat import cupy as xp
    except ImportError as error:
        raise MissingPartError(f"arrays on a GPU need CuPy: pip install 'tabpo[gpu]' ({error})") from error
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingPartError(f"CuPy finds no GPU ({error}); run with NumPy arrays instead") from error
    if n_devices == 0:
        raise MissingPartError("CuPy finds no GPU; run with NumPy arrays instead")
    return xp


def on_device_of(like: Array, values: Any) -> Array:
    """Return ``values`` as an array of the library, the dtype and the device of ``like``."""
    xp = namespace(like)
    return xp.asarray(values, dtype=like.dtype, device=getattr(like, "device", None))


def with_run_axis(array: Array, n_axes: int) -> Array:
    """Return ``array`` with a last axis of length 1 added if it has ``n_axes - 1`` axes, else as it is."""
    return array[..., None] if array.ndim == n_axes - 1 else array


def floating(array: Any) -> Array:
    """Return ``array`` with a floating dtype; lists and integers become float64."""
    if not hasattr(array, "ndim"):
        return np.asarray(array, dtype=np.float64)
    xp = namespace(array)
    return array if xp.isdtype(array.dtype, "real floating") else xp.astype(array, xp.float64)
