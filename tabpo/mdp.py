"""Models: validated, immutable finite-horizon MDPs."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError

Array = NDArray[np.float64]


def _position(index: tuple[int, ...], axes: str) -> str:
    names = ", ".join(axes.split())
    return f"at ({names}) = ({', '.join(str(i) for i in index)})" if len(index) > 1 else f"at {names} = {index[0]}"


def finite_array(name: str, values: ArrayLike, axes: str) -> Array:
    """Return ``values`` as a read-only float64 array of one dimension per axis name, all finite.

    Parameters
    ----------
    name : str
        What the array is called in the error.
    values : array-like
    axes : str
        The axes' names separated by blanks, such as ``"h s a"``.

    Raises
    ------
    InvalidInputError
        If the values are not numbers, their number of dimensions is another, an axis is empty or an entry is NaN or
        infinite.
    """
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers over ({axes}): {error}") from None
    if array.ndim != len(axes.split()):
        raise InvalidInputError(
            f"{name} must have {len(axes.split())} axes ({', '.join(axes.split())}), got shape {array.shape}"
        )
    if array.size == 0:
        raise InvalidInputError(f"{name} is empty: shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(f"{name} is {array[index]} {_position(index, axes)}; every entry must be finite")
    array.setflags(write=False)
    return array


def probability_rows(name: str, values: ArrayLike, axes: str, normalize: bool = False) -> Array:
    """Return ``values`` as a read-only float64 array whose last axis holds probability distributions.

    A row may miss 1 by the rounding of a sum of its length in its own precision (float32 input is recognised by its
    dtype); an accepted row is divided by its sum, so that what is stored sums to 1 to float64 rounding.

    Parameters
    ----------
    name, values, axes
        As in :func:`finite_array`.
    normalize : bool
        Divide rows by their sums, whatever they are (they must be positive).

    Raises
    ------
    InvalidInputError
        If an entry is negative or a row does not sum to 1.
    """
    array = finite_array(name, values, axes)
    given = np.asarray(values)
    if (array < 0).any():
        index = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise InvalidInputError(
            f"{name} is {array[index]:.6g} {_position(index, axes)}; probabilities must not be negative"
        )
    sums = array.sum(-1, keepdims=True)
    precision = np.finfo(given.dtype).eps if given.dtype in (np.float16, np.float32) else np.finfo(np.float64).eps
    tolerance = 8 * precision * max(8, array.shape[-1])
    wrong = np.abs(sums[..., 0] - 1) > tolerance
    if normalize:
        wrong = sums[..., 0] <= 0
    if wrong.any():
        row = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = _position(row, " ".join(axes.split()[:-1])) if row else ""
        fix = (
            "it has no mass to normalize"
            if normalize
            else "it must sum to 1 (pass normalize=True to divide by the sum)"
        )
        raise InvalidInputError(f"the row of {name} {where} sums to {sums[row][0]:.10g}; {fix}".replace("  ", " "))
    rows: Array = array / sums
    rows.setflags(write=False)
    return rows


def unit_interval(name: str, values: ArrayLike, axes: str) -> Array:
    """Return ``values`` as a read-only float64 array with entries in [0, 1]; see :func:`finite_array`."""
    array = finite_array(name, values, axes)
    outside = (array < 0) | (array > 1)
    if outside.any():
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        raise InvalidInputError(f"{name} is {array[index]:.6g} {_position(index, axes)}; it must lie in [0, 1]")
    return array


@dataclass(frozen=True)
class LossMap:
    """How rewards became losses: ``loss = (highest - reward) / (highest - lowest)``.

    Regret in rewards is regret in losses times ``highest - lowest``.
    """

    lowest: float
    highest: float

    @property
    def scale(self) -> float:
        """Reward units per unit of loss."""
        return self.highest - self.lowest


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A finite-horizon MDP with finitely many states and actions and step-dependent transitions.

    Parameters
    ----------
    transitions : array-like, (H, S, A, S)
        ``transitions[h, s, a]`` is the distribution of the next state. The last step's rows are never used to move,
        but must be distributions too.
    initial : array-like, (S,)
        Initial state distribution.
    losses : array-like, (H, S, A), in [0, 1], optional
        The environment's own expected losses, for environments that come with them.
    normalize : bool
        Divide rows by their sums instead of rejecting rows that do not sum to 1.
    name : str
        Shown in figures and results.
    state_labels, action_labels : sequences of str, optional
    positions : array-like, (S, 2), optional
        Where a drawing puts the states (x to the right, y upwards).
    loss_map : LossMap, optional
        The map from rewards to ``losses``, where the environment was given by rewards.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite or negative, or a row does not sum to 1; the sentence names the
        array, the index and the value.
    """

    transitions: Array
    initial: Array
    losses: Array | None = None
    normalize: InitVar[bool] = False
    name: str = "mdp"
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    positions: Array | None = None
    loss_map: LossMap | None = field(default=None)

    def __post_init__(self, normalize: bool) -> None:
        transitions = _transition_rows(self.transitions, normalize)
        initial = probability_rows("initial", self.initial, "s", normalize)
        n_steps, n_states, n_actions, n_next = transitions.shape
        if n_next != n_states:
            raise InvalidInputError(
                f"transitions must have shape (H, S, A, S), got {transitions.shape}: "
                f"{n_states} states but rows of length {n_next}"
            )
        if initial.shape != (n_states,):
            raise InvalidInputError(f"initial has length {initial.shape[0]}, but transitions have {n_states} states")
        self._set("transitions", transitions)
        self._set("initial", initial)
        if self.losses is not None:
            losses = unit_interval("losses", self.losses, "h s a")
            if losses.shape != (n_steps, n_states, n_actions):
                raise InvalidInputError(
                    f"losses must have shape (H, S, A) = {(n_steps, n_states, n_actions)}, got {losses.shape}"
                )
            self._set("losses", losses)
        for name, length in (("state_labels", n_states), ("action_labels", n_actions)):
            labels = getattr(self, name)
            if labels is not None:
                if len(labels) != length:
                    raise InvalidInputError(f"{name} has {len(labels)} entries, expected {length}")
                self._set(name, tuple(str(label) for label in labels))
        if self.positions is not None:
            positions = finite_array("positions", self.positions, "s coordinate")
            if positions.shape != (n_states, 2):
                raise InvalidInputError(f"positions must have shape (S, 2) = ({n_states}, 2), got {positions.shape}")
            self._set("positions", positions)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def stationary(
        cls,
        transitions: ArrayLike,
        initial: ArrayLike,
        horizon: int,
        losses: ArrayLike | None = None,
        **more: Any,
    ) -> TabularMDP:
        """Return the MDP whose transitions (S, A, S) and losses (S, A) are the same at each of ``horizon`` steps."""
        horizon = positive_integer("horizon", horizon)
        finite_array("transitions", transitions, "s a next_state")
        step = np.asarray(transitions)
        repeated = np.broadcast_to(step[None], (horizon, *step.shape))
        if losses is not None:
            losses = np.repeat(np.asarray(losses)[None], horizon, axis=0)
        return cls(repeated, initial, losses, **more)  # type: ignore[arg-type]

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self.transitions.shape[0])

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return int(self.transitions.shape[1])

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return int(self.transitions.shape[2])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.horizon, self.n_states, self.n_actions


def _transition_rows(given: ArrayLike, normalize: bool) -> Array:
    """Return validated transitions; one step broadcast along h is checked, and stays stored, once."""
    if isinstance(given, np.ndarray) and given.ndim == 4 and given.shape[0] > 1 and given.strides[0] == 0:
        rows = probability_rows("transitions", given[:1], "h s a next_state", normalize)
        return np.broadcast_to(rows, given.shape)
    return probability_rows("transitions", given, "h s a next_state", normalize)


def positive_integer(name: str, value: object, at_least: int = 1) -> int:
    """Return ``value`` as an int of at least ``at_least``; raise a sentence that names it otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise InvalidInputError(f"{name} must be an integer of at least {at_least}, got {value!r}")
    return int(value)
