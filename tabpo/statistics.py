"""Intervals over runs: pointwise, simultaneous over a curve, and for growth rates.

The run is the replication unit everywhere: episodes of one run are not replications, so nothing here averages
over them. With a single run there is no spread to estimate; the bounds are then NaN, never a band of width
zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError, unknown
from tabpo.mdp import positive_integer

Array = NDArray[np.float64]
Method = Literal["t", "bootstrap", "percentile"]

METHODS: dict[str, str] = {
    "t": "t interval",
    "bootstrap": "BCa bootstrap interval",
    "percentile": "percentile bootstrap interval",
}
"""Names of the pointwise intervals, as figures and tables print them."""


def interval(
    values: ArrayLike,
    level: float = 0.95,
    method: Method = "t",
    axis: int = -1,
    seed: int = 0,
    n_resamples: int = 4999,
) -> tuple[Array, Array, Array]:
    r"""Return the mean over runs and a *pointwise* confidence interval for it.

    The t interval is :math:`\bar x \pm t_{n-1,(1+c)/2}\, s/\sqrt n` at level c (Student 1908), with the
    quantile of n - 1 degrees of freedom, not 1.96. ``"bootstrap"`` is the bias-corrected and accelerated
    bootstrap over runs (Efron 1987), ``"percentile"`` the plain one; both are for skewed values and many
    runs, and undercover below some 20 runs.

    Parameters
    ----------
    values : array-like, (..., R)
        One value per run along ``axis``.
    level : float in (0, 1)
    method : "t", "bootstrap" or "percentile"
    axis : int
        The run axis.
    seed, n_resamples : int
        Of the bootstrap. Runs are resampled jointly: one resample serves every other entry of ``values``.

    Returns
    -------
    mean, lower, upper : arrays of the shape of ``values`` without ``axis``
        The bounds are NaN when there is a single run.

    Raises
    ------
    InvalidInputError
        If there is no run, a value is not finite, or the level or the method does not exist.
    """
    runs_last = np.moveaxis(_finite("values", values), axis, -1)
    _check_level(level)
    if method not in METHODS:
        raise unknown("interval method", method, METHODS)
    mean = runs_last.mean(-1)
    n_runs = runs_last.shape[-1]
    if n_runs == 1:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    if method == "t":
        half_width = scipy.stats.t.ppf((1 + level) / 2, n_runs - 1) * _standard_error(runs_last)
        return mean, mean - half_width, mean + half_width
    lower, upper = _bootstrap(runs_last, level, method, seed, positive_integer("n_resamples", n_resamples, 100))
    return mean, lower, upper


def simultaneous_band(
    curves: ArrayLike, level: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> tuple[Array, Array, Array]:
    r"""Return the mean curve and a *simultaneous* band: it holds the whole true mean curve at the level.

    The band is :math:`\bar x_c \pm \kappa\, s_c/\sqrt R`. Its factor :math:`\kappa` is the quantile, over
    resamples of whole runs, of the largest studentised deviation on the curve, :math:`\max_c |\bar x^*_c -
    \bar x_c| / s^*_c` (bootstrap-t), so that the dependence along a curve is kept and neighbouring
    checkpoints are not paid for twice. With few runs a resample may repeat one run and has no spread; the
    factor is therefore bounded by Bonferroni's, the t quantile at :math:`1 - (1 - level)/(2 C)`. Below about
    eight runs that bound is what counts and the band is wide.

    Parameters
    ----------
    curves : array-like, (C, R)
        Checkpoints by runs.
    level : float in (0, 1)
    n_resamples, seed : int

    Returns
    -------
    mean, lower, upper : arrays (C,)
        The bounds are NaN when there is a single run.

    Raises
    ------
    InvalidInputError
        If ``curves`` is not a finite (C, R) array or the level is outside (0, 1).
    """
    array = _finite("curves", curves)
    _check_level(level)
    if array.ndim != 2:
        raise InvalidInputError(f"curves must have shape (checkpoints, runs), got {array.shape}")
    mean = array.mean(1)
    n_points, n_runs = array.shape
    if n_runs == 1:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    error = _standard_error(array)
    bonferroni = scipy.stats.t.ppf(1 - (1 - level) / (2 * n_points), n_runs - 1)
    deviations = _largest_deviations(array - mean[:, None], positive_integer("n_resamples", n_resamples, 100), seed)
    factor = min(float(np.quantile(deviations, level, method="higher")), float(bonferroni))
    return mean, mean - factor * error, mean + factor * error


@dataclass(frozen=True)
class Slope:
    """Growth rates on log-log axes, one per run.

    Attributes
    ----------
    per_run : array (R,)
    mean, lower, upper : float
        Mean over runs and its t interval; the bounds are NaN for a single run.
    level : float
    window : tuple of float
        First and last abscissa used.
    n_points : int
        Number of points used.
    """

    per_run: Array
    mean: float
    lower: float
    upper: float
    level: float
    window: tuple[float, float]
    n_points: int

    def __str__(self) -> str:
        if np.isnan(self.lower):
            return f"{self.mean:.2f} (single run, no interval)"
        return f"{self.mean:.2f} [{self.lower:.2f}, {self.upper:.2f}]"


def log_log_slope(
    episodes: ArrayLike,
    curves: ArrayLike,
    window: tuple[float, float] | None = None,
    level: float = 0.95,
) -> Slope:
    """Return each run's slope of log(curve) against log(episodes): 1/2 where regret grows like the root of K.

    Least squares per run over the points of the window; log-spaced checkpoints so weigh equally on the log
    axis. The interval is over the runs' slopes, since the points of one run are not replications.

    Parameters
    ----------
    episodes : array-like, (C,), positive
        The abscissa: episodes, or any other positive quantity such as the total delay.
    curves : array-like, (C, R) or (C,), positive within the window
    window : (first, last), optional
        Points with first <= episodes <= last are used; default: the last decade, from a tenth of the largest
        abscissa.
    level : float in (0, 1)

    Raises
    ------
    InvalidInputError
        If the window holds fewer than two different abscissas, or a value in it is not positive (a logarithm
        would not exist; dropping the run or the point would bias the slope).
    """
    abscissa, array = _finite("episodes", episodes), _finite("curves", curves)
    _check_level(level)
    array = array[:, None] if array.ndim == 1 else array
    if abscissa.ndim != 1 or array.ndim != 2 or array.shape[0] != abscissa.shape[0]:
        raise InvalidInputError(
            f"curves must have shape (C,) or (C, R) and episodes (C,), got {array.shape} and {abscissa.shape}"
        )
    first, last = window if window is not None else (abscissa.max() / 10, abscissa.max())
    inside = (abscissa >= first) & (abscissa <= last) & (abscissa > 0)
    x, y = abscissa[inside], array[inside]
    if np.unique(x).size < 2:
        raise InvalidInputError(
            f"the window {first:g} to {last:g} holds {np.unique(x).size} positive abscissas; a slope needs two"
        )
    if (y <= 0).any():
        point, run = np.argwhere(y <= 0)[0]
        raise InvalidInputError(
            f"the value {y[point, run]:.6g} of run {run} at {x[point]:g} is not positive and has no "
            "logarithm; give a window where every run is positive"
        )
    log_x = np.log(x) - np.log(x).mean()
    per_run = log_x @ np.log(y) / (log_x @ log_x)
    mean, lower, upper = interval(per_run, level)
    return Slope(per_run, float(mean), float(lower), float(upper), level, (float(x.min()), float(x.max())), x.size)


def _finite(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or array.ndim == 0:
        raise InvalidInputError(f"{name} must hold at least one run, got shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(f"{name} is {array[index]} at {index}; every entry must be finite")
    return array


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1, such as 0.95, got {level!r}")


def _standard_error(runs_last: Array) -> Array:
    error: Array = runs_last.std(-1, ddof=1) / np.sqrt(runs_last.shape[-1])
    return error


def _bootstrap(runs_last: Array, level: float, method: str, seed: int, n_resamples: int) -> tuple[Array, Array]:
    rows = runs_last.reshape(-1, runs_last.shape[-1])
    lower, upper = rows.mean(-1), rows.mean(-1)
    # Equal runs (regret 0 at the first checkpoint, say) have nothing to resample: their interval is a point,
    # where BCa's acceleration would be 0/0.
    spread = np.ptp(rows, axis=-1) > 0
    if spread.any():
        result = scipy.stats.bootstrap(
            (rows[spread],),
            np.mean,
            n_resamples=n_resamples,
            batch=max(1, 4_000_000 // rows[spread].size),
            vectorized=True,
            axis=-1,
            confidence_level=level,
            method="BCa" if method == "bootstrap" else "percentile",
            random_state=np.random.default_rng(seed),
        )
        lower[spread], upper[spread] = result.confidence_interval
    shape = runs_last.shape[:-1]
    return lower.reshape(shape), upper.reshape(shape)


def _largest_deviations(centred: Array, n_resamples: int, seed: int) -> Array:
    """Return max over the centred curve (C, R) of |mean| / standard error, per resample of the runs."""
    n_runs = centred.shape[1]
    # How often a resample holds each run says all about it: means and spreads are products with these counts.
    counts = np.random.default_rng(seed).multinomial(n_runs, np.full(n_runs, 1 / n_runs), n_resamples)
    weights = counts / n_runs
    scale = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    varying = scale[:, 0] > 0
    if not varying.any():
        return np.zeros(n_resamples)
    unit = centred[varying] / scale[varying]
    means = weights @ unit.T
    variances = weights @ (unit**2).T - means**2
    # A resample of one repeated run has a variance of 0 but for rounding, and no studentised deviation:
    # infinite.
    degenerate = variances <= 1e-12 * (1 + means**2)
    errors = np.sqrt(np.where(degenerate, 1.0, variances) / (n_runs - 1))
    largest: Array = np.where(degenerate, np.inf, np.abs(means) / errors).max(1)
    return largest
