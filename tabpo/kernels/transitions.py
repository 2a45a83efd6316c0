"""A model's transitions, prepared once for the products that an episode consists of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def inverse_cdf_table(probabilities: Floats) -> Floats:
    """Return cumulative sums along the last axis that are exactly 1 from the last outcome of positive probability on.

    An outcome drawn as the first whose entry exceeds a uniform number in [0, 1) then always has positive probability.
    """
    table = np.cumsum(probabilities, axis=-1)
    positive_from_here = np.flip(np.logical_or.accumulate(np.flip(probabilities > 0, -1), axis=-1), -1)
    positive_later = np.zeros_like(positive_from_here)
    positive_later[..., :-1] = positive_from_here[..., 1:]
    return np.where(positive_later, table, 1.0)


DENSE_FROM = 0.5
"""Share of non-zero entries from which a matrix is multiplied as a dense one."""


@dataclass(frozen=True)
class StepMatrices:
    """Matrices (rows, columns), one per step, in the form in which the compiled kernels multiply by them.

    Attributes
    ----------
    dense : (n, rows, columns)
        The matrices, n = H, or n = 1 if all steps share one; n = 0 if they are multiplied by their non-zero entries.
    start : (H, rows + 1)
        Row i of step h has the non-zero entries ``start[h, i]`` to ``start[h, i + 1]``.
    column, value : (entries,)
    """

    dense: Floats
    start: Indices
    column: Indices
    value: Floats

    @classmethod
    def prepare(cls, matrices: Floats, n_steps: int = 1) -> StepMatrices:
        """Prepare matrices (H, rows, columns), or (1, rows, columns) to be used at each of ``n_steps`` steps."""
        n_distinct, n_rows, n_columns = matrices.shape
        step, row, column = np.nonzero(matrices)
        if step.size >= DENSE_FROM * matrices.size:
            nothing = np.zeros(0, dtype=np.int64)
            start = np.zeros((n_steps, n_rows + 1), dtype=np.int64)
            return cls(np.ascontiguousarray(matrices), start, nothing, np.zeros(0))
        counts = np.bincount(step * n_rows + row, minlength=n_distinct * n_rows)
        ends = np.concatenate([[0], np.cumsum(counts)])
        start = np.stack([ends[h * n_rows : (h + 1) * n_rows + 1] for h in range(n_distinct)]).astype(np.int64)
        start = np.repeat(start, n_steps // n_distinct, axis=0)
        value = np.ascontiguousarray(matrices[step, row, column])
        return cls(np.zeros((0, n_rows, n_columns)), start, column.astype(np.int64), value)

    @property
    def arrays(self) -> tuple[Floats, Indices, Indices, Floats]:
        """The four arrays, as the compiled kernels take them."""
        return self.dense, self.start, self.column, self.value


class SharedMatrix:
    """A matrix (n, m) shared by all runs, prepared for :func:`tabpo.kernels.product`.

    Attributes
    ----------
    dense : (n, m)
    matrices : StepMatrices
        Of one step.
    """

    def __init__(self, matrix: Floats) -> None:
        self.dense = np.ascontiguousarray(matrix, dtype=np.float64)
        self.matrices = StepMatrices.prepare(self.dense[None])


class Transitions:
    """Transitions (H, S, A, S) with the tables that kernels use.

    Parameters
    ----------
    transitions : array, (H, S, A, S)
        Trusted: rows are distributions.

    Attributes
    ----------
    dense : (H, S, A, S)
    backward : StepMatrices
        Row (s, a) of step h: the next state's distribution. For backups of values.
    forward : StepMatrices
        Row s' of step h: the probabilities of reaching it from every (s, a). For occupancies.
    table : (H, S, A, S), or (1, S, A, S) for a stationary model
        Inverse-CDF table of the next state.
    """

    def __init__(self, transitions: Floats) -> None:
        steps = np.asarray(transitions, dtype=np.float64)
        self.horizon, self.n_states, self.n_actions, _ = steps.shape
        # A stationary model (one step broadcast along h) is prepared, and kept, once.
        distinct = steps[:1] if is_repeated(steps) else np.ascontiguousarray(steps)
        self.dense = np.broadcast_to(distinct, steps.shape) if is_repeated(steps) else distinct
        pairs = distinct.reshape(-1, self.n_states * self.n_actions, self.n_states)
        self.backward = StepMatrices.prepare(pairs, self.horizon)
        self.forward = StepMatrices.prepare(np.swapaxes(pairs, 1, 2), self.horizon)
        self.table = inverse_cdf_table(distinct)


def is_repeated(steps: Floats) -> bool:
    """Whether an array (H, ...) is one step broadcast along h."""
    return steps.shape[0] > 1 and steps.strides[0] == 0
