"""The operations that the time goes into, one function each.

Each has a plain version that reads like its formula (array-API code: it is also what runs on CuPy arrays) and a version
compiled by Numba for the CPU. They are in pairs of modules:

- :mod:`~tabpo.kernels.plain` and :mod:`~tabpo.kernels.compiled`, those of an episode with known transitions;
- :mod:`~tabpo.kernels.plain_leaders` and :mod:`~tabpo.kernels.leaders`, the regularised leaders;
- :mod:`~tabpo.kernels.plain_trust_regions` and :mod:`~tabpo.kernels.trust_regions`, conservative steps;
- :mod:`~tabpo.kernels.plain_ftrl` and :mod:`~tabpo.kernels.ftrl`, what learners need beside the leaders;
- :mod:`~tabpo.kernels.plain_boxes` and :mod:`~tabpo.kernels.compiled_boxes`, confidence sets (bounds of occupancies
  over them: :mod:`~tabpo.kernels.compiled_bounds`);
- :mod:`~tabpo.kernels.plain_models` and :mod:`~tabpo.kernels.compiled_models`, empirical models.

The arrays handed over choose: NumPy arrays run the compiled version, everything else the plain one. The environment
variable ``TABPO_KERNELS`` (``numba``, ``numpy`` or ``cupy``) or :func:`using` says otherwise: ``numpy`` runs NumPy
arrays through the plain version, ``cupy`` puts the runs of a simulation on the GPU. A kernel is a function of its
arguments; random numbers are drawn outside.

With the compiled version a run's numbers do not depend, bit for bit, on the runs beside it. The plain version calls the
array library's matrix product, which gives no such promise.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tabpo.arrays import library
from tabpo.errors import InvalidInputError
from tabpo.kernels import plain, plain_boxes, plain_ftrl, plain_leaders, plain_models, plain_trust_regions
from tabpo.kernels.boxes import Boxes, PackedBoxes
from tabpo.kernels.transitions import SharedMatrix, Transitions, inverse_cdf_table

__all__ = [
    "BOX_KERNELS",
    "FTRL_KERNELS",
    "KERNELS",
    "MODEL_KERNELS",
    "Boxes",
    "PackedBoxes",
    "SharedMatrix",
    "Transitions",
    "accumulate",
    "add_at_states",
    "add_at_trajectory",
    "array_library",
    "at_states",
    "at_trajectory",
    "backend",
    "backup",
    "count_trajectory",
    "empirical_mean",
    "empirical_variance",
    "exchange_rows",
    "expected_loss",
    "exploration_bonus",
    "exponential_weights",
    "extended_q_values",
    "extreme_expectations",
    "importance_weighted",
    "inverse",
    "inverse_cdf_table",
    "largest_in_kl_ball",
    "largest_in_tv_ball",
    "largest_step",
    "leader_entropy",
    "least_mean",
    "log_barrier_leader",
    "next_occupancy",
    "occupancy_bounds",
    "occupancy_bounds_at",
    "prepare",
    "product",
    "q_values",
    "refresh_boxes",
    "sample_trajectories",
    "shannon_leader",
    "state_occupancy",
    "take_rows",
    "tsallis_leader",
    "tsallis_spread",
    "using",
    "warm_up",
    "with_bias",
]

KERNELS = (
    "exponential_weights",
    "state_occupancy",
    "next_occupancy",
    "backup",
    "expected_loss",
    "q_values",
    "sample_trajectories",
    "at_trajectory",
    "add_at_trajectory",
    "importance_weighted",
    "exploration_bonus",
    "product",
)

FTRL_KERNELS = (
    "inverse",
    "accumulate",
    "tsallis_spread",
    "leader_entropy",
    "with_bias",
    "largest_step",
    "at_states",
    "add_at_states",
)
"""Those of follow the regularised leader."""

BOX_KERNELS = (
    "occupancy_bounds",
    "occupancy_bounds_at",
    "extreme_expectations",
    "extended_q_values",
    "count_trajectory",
    "refresh_boxes",
)
"""Those of confidence sets."""

MODEL_KERNELS = ("empirical_mean", "empirical_variance", "least_mean")
"""Those of empirical models."""

_BACKENDS = ("numba", "numpy", "cupy")


def _checked(backend: str, source: str) -> str:
    if backend not in _BACKENDS:
        raise InvalidInputError(f"{source} is {backend!r}; it must be 'numba' (the default), 'numpy' or 'cupy'")
    return backend


_asked = _checked(os.environ.get("TABPO_KERNELS", "numba"), "TABPO_KERNELS")


@contextmanager
def using(backend: str) -> Iterator[None]:
    """Choose the kernels while the context lasts.

    ``"numba"`` runs NumPy arrays through the compiled version, ``"numpy"`` through the plain one; ``"cupy"`` makes
    simulations hold their runs in CuPy arrays.

    Raises
    ------
    InvalidInputError
        If the name is another.
    """
    global _asked
    before = _asked
    _asked = _checked(backend, "the kernels' backend")
    try:
        yield
    finally:
        _asked = before


def backend() -> str:
    """Return the kernels chosen now: ``"numba"``, ``"numpy"`` or ``"cupy"``."""
    return _asked


def array_library() -> Any:
    """Return the namespace of the arrays in which simulations hold their runs under the backend chosen now.

    Raises
    ------
    MissingPartError
        If it is CuPy and there is none, or no GPU.
    """
    return library("cupy" if _asked == "cupy" else "numpy")


@functools.cache
def _compiled(module: str) -> Any:
    """Return a module of compiled versions; Numba is imported at the first use."""
    return importlib.import_module(f"tabpo.kernels.{module}")


_NATIVE = (np.dtype(np.float64), np.dtype(np.int64))


def _for_compiled(arguments: tuple[Any, ...]) -> list[Any] | None:
    """Return the arguments as the compiled kernels take them, or None if an array is not NumPy's."""
    ready: list[Any] = []
    for argument in arguments:
        if type(argument) is np.ndarray:
            if not (argument.flags.c_contiguous and argument.dtype in _NATIVE):
                dtype = np.int64 if argument.dtype.kind in "iu" else np.float64
                argument = np.ascontiguousarray(argument, dtype=dtype)
        elif hasattr(argument, "ndim") and not isinstance(argument, np.generic):
            return None
        ready.append(argument)
    return ready


def _for_plain(argument: Any) -> Any:
    return argument.dense if isinstance(argument, (Transitions, SharedMatrix, PackedBoxes, _DenseTables)) else argument


def _kernel(name: str, formulas: Any = plain, compiled: str = "compiled") -> Callable[..., Any]:
    plain_version = getattr(formulas, name)
    takes_transitions = "transitions" in plain_version.__code__.co_varnames[:1]

    @functools.wraps(plain_version)
    def kernel(*arguments: Any) -> Any:
        ready = _for_compiled(arguments) if _asked != "numpy" else None
        if ready is None:
            return plain_version(*map(_for_plain, arguments))
        if takes_transitions and not isinstance(ready[0], Transitions):
            ready[0] = Transitions(ready[0])
        return getattr(_compiled(compiled), name)(*ready)

    return kernel


exponential_weights = _kernel("exponential_weights")
state_occupancy = _kernel("state_occupancy")
next_occupancy = _kernel("next_occupancy")
backup = _kernel("backup")
expected_loss = _kernel("expected_loss")
q_values = _kernel("q_values")
sample_trajectories = _kernel("sample_trajectories")
at_trajectory = _kernel("at_trajectory")
add_at_trajectory = _kernel("add_at_trajectory")
importance_weighted = _kernel("importance_weighted")
exploration_bonus = _kernel("exploration_bonus")
product = _kernel("product")
inverse = _kernel("inverse", plain_ftrl, "ftrl")
accumulate = _kernel("accumulate", plain_ftrl, "ftrl")
tsallis_spread = _kernel("tsallis_spread", plain_ftrl, "ftrl")
leader_entropy = _kernel("leader_entropy", plain_ftrl, "ftrl")
with_bias = _kernel("with_bias", plain_ftrl, "ftrl")
largest_step = _kernel("largest_step", plain_ftrl, "ftrl")
at_states = _kernel("at_states", plain_ftrl, "ftrl")
add_at_states = _kernel("add_at_states", plain_ftrl, "ftrl")
shannon_leader = _kernel("shannon_leader", plain_leaders, "leaders")
tsallis_leader = _kernel("tsallis_leader", plain_leaders, "leaders")
log_barrier_leader = _kernel("log_barrier_leader", plain_leaders, "leaders")
largest_in_tv_ball = _kernel("largest_in_tv_ball", plain_trust_regions, "trust_regions")
largest_in_kl_ball = _kernel("largest_in_kl_ball", plain_trust_regions, "trust_regions")
occupancy_bounds = _kernel("occupancy_bounds", plain_boxes, "compiled_bounds")
occupancy_bounds_at = _kernel("occupancy_bounds_at", plain_boxes, "compiled_bounds")
extreme_expectations = _kernel("extreme_expectations", plain_boxes, "compiled_boxes")
extended_q_values = _kernel("extended_q_values", plain_boxes, "compiled_boxes")
count_trajectory = _kernel("count_trajectory", plain_boxes, "compiled_boxes")
refresh_boxes = _kernel("refresh_boxes", plain_boxes, "compiled_boxes")
empirical_mean = _kernel("empirical_mean", plain_models, "compiled_models")
empirical_variance = _kernel("empirical_variance", plain_models, "compiled_models")
least_mean = _kernel("least_mean", plain_models, "compiled_models")


def take_rows(boxes: PackedBoxes, where: Any) -> Any:
    """Return what packed sets hold in some rows; see :func:`tabpo.kernels.compiled_boxes.take_rows`."""
    return _compiled("compiled_boxes").take_rows(boxes, where)


def exchange_rows(boxes: PackedBoxes, where: Any, rows: Any) -> None:
    """Exchange rows of packed sets; see :func:`tabpo.kernels.compiled_boxes.exchange_rows`."""
    _compiled("compiled_boxes").exchange_rows(boxes, where, rows)


class _DenseTables:
    """What :class:`Transitions` holds, as arrays of another library (CuPy, say), for the plain kernels."""

    def __init__(self, transitions: Transitions, xp: Any) -> None:
        self.dense = xp.asarray(transitions.dense)
        self.table = xp.asarray(transitions.table)


def prepare(transitions: Any, xp: Any = np) -> Any:
    """Return transitions (H, S, A, S) prepared for many kernel calls with arrays of the library ``xp``.

    The result has ``dense`` (H, S, A, S) and the inverse-CDF ``table``, see :class:`Transitions`.
    """
    prepared = transitions if isinstance(transitions, Transitions) else Transitions(transitions)
    return prepared if xp is np else _DenseTables(prepared, xp)


def warm_up() -> None:
    """Compile every kernel, or load it from the cache, so that worker processes started later find it there."""
    if _asked != "numpy":
        _compiled("compiled")  # signatures are fixed: importing compiles
        _compiled("leaders")
        _compiled("trust_regions")
        _compiled("ftrl")
        _compiled("compiled_boxes")
        _compiled("compiled_bounds")
        _compiled("compiled_models")
