"""Normal-Gamma posteriors over the means and precisions of normal observations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer
from tabpo.posteriors.tables import LARGEST, Cells, Floats, Generators, Table, sizes


class StudentT(NamedTuple):
    """Student's t: the law of ``location + scale T``, T with ``degrees`` degrees of freedom; arrays of one shape."""

    degrees: Floats
    location: Floats
    scale: Floats


class NormalGammaParameters(NamedTuple):
    """Normal-Gamma laws of unknown means mu and precisions tau of normal observations; arrays of one shape.

    ``tau ~ Gamma(shape, rate)``, and given tau, ``mu ~ Normal(mean, 1 / (precision_count tau))``: what is known of mu
    is worth ``precision_count`` observations.
    """

    mean: Floats
    precision_count: Floats
    shape: Floats
    rate: Floats

    def variance(self) -> Floats:
        """Return the variance of mu, ``rate / (precision_count (shape - 1))``; infinite for a shape of at most 1."""
        above = np.maximum(self.shape - 1.0, 0.0)
        return np.divide(self.rate, self.precision_count * above, out=np.full_like(above, np.inf), where=above > 0)

    def marginal(self) -> StudentT:
        """Return the law of mu, tau unknown."""
        return StudentT(2.0 * self.shape, self.mean, np.sqrt(self.rate / (self.precision_count * self.shape)))

    def predictive(self) -> StudentT:
        """Return the law of the next observation."""
        spread = self.rate * (self.precision_count + 1.0) / (self.precision_count * self.shape)
        return StudentT(2.0 * self.shape, self.mean, np.sqrt(spread))

    def after(self, values: ArrayLike) -> NormalGammaParameters:
        """Return the parameters after one more observation of each; ``values`` broadcast against them."""
        surprise = np.asarray(values, dtype=np.float64) - self.mean
        count = self.precision_count + 1.0
        return NormalGammaParameters(
            self.mean + surprise / count,
            count + np.zeros_like(surprise),
            self.shape + 0.5 + np.zeros_like(surprise),
            self.rate + self.precision_count / (2.0 * count) * surprise**2,
        )


class NormalGamma:
    """Posterior over the means mu and precisions tau of normal observations, one pair per cell: of rewards, say.

    With n observations of mean m and sum of squared deviations SS, and the prior's ``mean`` mu_0, ``precision_count``
    lam, ``shape`` a and ``rate`` b (DeGroot, "Optimal Statistical Decisions", section 9.6)::

        mean             (lam mu_0 + n m) / (lam + n)
        precision_count  lam + n
        shape            a + n / 2
        rate             b + SS / 2 + n lam (m - mu_0)^2 / (2 (lam + n))

    n, m and SS are updated online (Chan, Golub, LeVeque 1983), as distances from each cell's first observation: an
    offset of 1e8 in the observations costs no digit of SS. Arrays have the shape (cells, R), such as (S, A, S, R).

    Parameters
    ----------
    cells : tuple of int, or int
        The shape of the table: (S, A, S) for rewards that depend on the next state; () for a single pair.
    n_runs : int, optional
        R. Without it arrays have no run axis.
    mean : float, or array that broadcasts against (cells, R)
        Of the prior: what mu is expected to be. At most 1e50 in size.
    precision_count : float, or such an array, in [1e-50, 1e50]
        Of the prior: how many observations its mean is worth.
    shape, rate : float, or such an array, in [1e-50, 1e50]
        Of the prior's Gamma law of tau, whose mean is ``shape / rate``. The variance of mu is finite for a shape above
        1. Draws need a shape of some 0.1 where nothing has been observed: below, tau may be 0 in float64.

    Raises
    ------
    InvalidInputError
        If a size is no positive integer, or a setting lies outside its range.
    """

    def __init__(
        self,
        cells: Cells,
        n_runs: int | None = None,
        *,
        mean: ArrayLike = 0.0,
        precision_count: ArrayLike = 4.0,
        shape: ArrayLike = 3.0,
        rate: ArrayLike = 3.0,
    ) -> None:
        self._table = Table(sizes(cells), n_runs)
        self._prior = NormalGammaParameters(
            self._table.setting("mean", mean, least=-LARGEST),
            self._table.setting("precision_count", precision_count),
            self._table.setting("shape", shape),
            self._table.setting("rate", rate),
        )
        # Of each cell: observations, the first of them, and the mean and sum of squares of the distances from it.
        size = math.prod(self._table.whole)
        self._counts, self._origins, self._means, self._squares = (np.zeros(size) for _ in range(4))

    def update(self, *observations: ArrayLike) -> None:
        """Add observations: the index arrays of their cells, then the values; ``update(s, a, next_s, reward)``, say.

        Parameters
        ----------
        *observations : int, the last float, each (R,) or (T, R) (without runs: a number or (T,)), or broadcasting
            This step's observation of every run, or T of them for each. Any order and any batches lead to the same
            posterior, up to rounding.

        Raises
        ------
        InvalidInputError
            If their number is wrong, their shapes do not fit, an index is no integer within the table, or a value is
            not finite, or beyond 1e50.
        """
        at, values = self._table.locate(observations, with_values=True)
        cells, first, group = np.unique(at, return_index=True, return_inverse=True)
        before, added = self._counts[cells], np.bincount(group)
        total = before + added
        origins = np.where(before == 0, values[first], self._origins[cells])
        distances = values - origins[group]
        means = np.bincount(group, distances) / added
        squares = np.bincount(group, (distances - means[group]) ** 2)
        shift = means - self._means[cells]
        self._counts[cells] = total
        self._origins[cells] = origins
        self._means[cells] += shift * (added / total)
        self._squares[cells] += squares + shift**2 * (before * added / total)

    def counts(self) -> NDArray[np.int64]:
        """Return the observations of each cell, (cells, R)."""
        return self._counts.astype(np.int64).reshape(self._table.shape)

    def parameters(self) -> NormalGammaParameters:
        """Return the posterior's mean, precision_count, shape and rate, each (cells, R)."""
        return NormalGammaParameters(*(array.reshape(self._table.shape) for array in self._parameters()))

    def _parameters(self) -> NormalGammaParameters:
        prior, whole = self._prior, self._table.whole
        counts, origins, means, squares = (
            array.reshape(whole) for array in (self._counts, self._origins, self._means, self._squares)
        )
        precision_count = prior.precision_count + counts
        share = counts / precision_count
        distance = (origins - prior.mean) + means  # m - mu_0
        return NormalGammaParameters(
            prior.mean + share * distance,
            precision_count,
            prior.shape + 0.5 * counts,
            prior.rate + 0.5 * (squares + share * prior.precision_count * distance**2),
        )

    def mean(self) -> Floats:
        """Return the posterior mean of mu, (cells, R)."""
        return self.parameters().mean

    def variance(self) -> Floats:
        """Return the posterior variance of mu, (cells, R)."""
        return self.parameters().variance()

    def sample(self, n: int, rng: Generators) -> Floats:
        """Return n independent draws of mu for each run: the first part of what :meth:`sample_with_precisions` does."""
        return self.sample_with_precisions(n, rng)[0]

    def sample_with_precisions(self, n: int, rng: Generators) -> tuple[Floats, Floats]:
        """Return n independent draws of mu and tau for each run.

        Order of a run's random numbers: the Gamma variables, draw by draw and cell by cell; then the normal ones, in
        the same order.

        Parameters
        ----------
        n : int, at least 1
        rng : Generator, or list of R of them
            One for each run, each its own.

        Returns
        -------
        means, precisions : (n, cells, R)
            Views of memory in the order (R, n, cells): ``np.moveaxis(means, -1, 0)`` is contiguous.

        Raises
        ------
        InvalidInputError
            If n is no positive integer, there is not one generator for each run, or a shape is so small that a draw of
            tau is 0 in float64.
        """
        means = self._table.empty(positive_integer("n", n))
        precisions = np.empty_like(means)
        mean, count, shape, rate = (np.moveaxis(array, -1, 0).copy() for array in self._parameters())
        for run, generator in enumerate(self._table.generators(rng)):
            gammas = generator.standard_gamma(shape[run], size=means.shape[1:])
            normals = generator.standard_normal(means.shape[1:])
            if not (gammas > 1e-200).all():
                raise InvalidInputError("a draw of tau is 0 in float64; give the prior a shape of at least 0.1")
            precisions[run] = gammas / rate[run]
            means[run] = mean[run] + normals * np.sqrt(rate[run] / count[run] / gammas)
        return self._table.run_last(means), self._table.run_last(precisions)
