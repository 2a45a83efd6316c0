"""Dirichlet posteriors over categorical distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.mdp import positive_integer
from tabpo.posteriors.tables import Cells, Floats, Generators, Table, sizes


class Dirichlet:
    """Posterior over categorical distributions, one per cell: the transitions of a tabular MDP, say.

    After n(x) observations of outcome x the concentration is ``alpha(x) = concentration + n(x)``. Arrays have the shape
    (cells, n_outcomes, R), such as (S, A, S, R).

    Parameters
    ----------
    cells : tuple of int, or int
        The shape of the table of distributions: (S, A), or (H, S, A); () for a single one.
    n_outcomes : int
    n_runs : int, optional
        R. Without it arrays have no run axis.
    concentration : float, or array that broadcasts against (cells, n_outcomes, R), in [1e-50, 1e50]
        Of the prior: 1 is the uniform law of all distributions; the smaller, the more deterministic its draws.

    Raises
    ------
    InvalidInputError
        If a size is no positive integer, or a concentration lies outside its range.
    """

    def __init__(
        self, cells: Cells, n_outcomes: int, n_runs: int | None = None, *, concentration: ArrayLike = 1.0
    ) -> None:
        self._table = Table((*sizes(cells), positive_integer("n_outcomes", n_outcomes)), n_runs)
        self._prior = self._table.setting("concentration", concentration)
        self._counts = np.zeros(self._table.whole, dtype=np.int64)

    def update(self, *observations: ArrayLike) -> None:
        """Add observations: the index arrays of their cells, then their outcomes; ``update(s, a, next_s)``, say.

        Parameters
        ----------
        *observations : int, each (R,) or (T, R) (without runs: a number or (T,)), or broadcasting to that
            This step's observation of every run, or T of them for each. Any order and any batches lead to the same
            posterior.

        Raises
        ------
        InvalidInputError
            If their number is wrong, their shapes do not fit, or an index is no integer within the table.
        """
        np.add.at(self._counts.reshape(-1), self._table.locate(observations)[0], 1)

    def counts(self) -> NDArray[np.int64]:
        """Return the observations of each outcome, (cells, n_outcomes, R)."""
        return self._counts.reshape(self._table.shape).copy()

    def concentration(self) -> Floats:
        """Return the posterior's ``alpha``, (cells, n_outcomes, R)."""
        return (self._prior + self._counts).reshape(self._table.shape)

    def mean(self) -> Floats:
        """Return ``alpha / sum alpha``, (cells, n_outcomes, R)."""
        return self._mean_and_total()[0].reshape(self._table.shape)

    def variance(self) -> Floats:
        """Return each probability's variance, ``mean (1 - mean) / (1 + sum alpha)``, (cells, n_outcomes, R)."""
        mean, total = self._mean_and_total()
        return (mean * (1.0 - mean) / (1.0 + total)).reshape(self._table.shape)

    def _mean_and_total(self) -> tuple[Floats, Floats]:
        alpha = self._prior + self._counts
        total = np.cumsum(alpha, axis=-2)[..., -1:, :]  # in the order of the outcomes, however many runs there are
        return alpha / total, total

    def sample(self, n: int, rng: Generators) -> Floats:
        """Return n independent draws for each run, each of them distributions for all cells.

        They are normalised Gamma variables. For concentrations below 1, whose Gamma variables may all underflow, these
        are taken in logarithms: ``ln Gamma(alpha) = ln Gamma(alpha + 1) - Exponential / alpha``.

        Order of a run's random numbers: the Gamma variables, draw by draw, cell by cell and outcome by outcome; then,
        in the same order, the exponential ones of concentrations below 1.

        Parameters
        ----------
        n : int, at least 1
        rng : Generator, or list of R of them
            One for each run, each its own.

        Returns
        -------
        draws : (n, cells, n_outcomes, R)
            They sum to 1 over the outcomes. A view of memory in the order (R, n, cells, n_outcomes):
            ``np.moveaxis(draws, -1, 0)`` is contiguous.

        Raises
        ------
        InvalidInputError
            If n is no positive integer, or there is not one generator for each run.
        """
        draws = self._table.empty(positive_integer("n", n))
        for run, generator in enumerate(self._table.generators(rng)):
            draws[run] = _draws(self._prior[..., run] + self._counts[..., run], len(draws[run]), generator)
        return self._table.run_last(draws)


def _draws(alpha: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return n draws for each row of ``alpha``."""
    small = alpha < 1.0
    weights = rng.standard_gamma(alpha + small, size=(n, *alpha.shape))
    if small.any():
        logarithms = np.log(np.maximum(weights, 1e-300))  # a Gamma variable may be 0 once in 10^16 draws
        logarithms[:, small] -= rng.standard_exponential((n, int(small.sum()))) / alpha[small]
        weights = np.exp(logarithms - logarithms.max(-1, keepdims=True))
    distributions: Floats = weights / weights.sum(-1, keepdims=True)
    return distributions
