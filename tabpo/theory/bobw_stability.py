"""Claims of best of both worlds about the stability of one step, L8 to L10: Stab against sums of squares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tabpo.theory.bobw_common import PAPER, relative
from tabpo.theory.bobw_ftrl import FLOOR, draw_step, regularizer, stab
from tabpo.theory.claims import Claim, Floats, Instance

# Bounds sum_a bound(z_a) weight_a, where z_a^2 weight_a = eta pi scale (c - x)^2


def against(i: Instance, bound: Callable[[Floats], Floats]) -> tuple[float, float]:
    """Return Stab, and the bound with what rounding may add to Stab."""
    pi, eta = i["policy"], i["step_size"]
    scale = regularizer(i["kind"], i["q"]).scale(pi)
    z = eta * scale * (i["losses"] - i["shift"])
    gain, rounding = stab(i)
    return gain, float((bound(z) * pi / (eta * scale)).sum()) + rounding


def _shannon_exactly(i: Instance) -> float:
    """Return ``<pi, c> + ln(sum_a pi e^(-eta c)) / eta``."""
    pi, eta = i["policy"], float(i["step_size"][0])
    exponents = -eta * i["losses"]
    largest = exponents.max()
    return float(pi @ i["losses"] + (largest + np.log(pi @ np.exp(exponents - largest))) / eta)


def _missed(i: Instance) -> tuple[float, float]:
    """Return by how much Stab misses the exact form, and 1e-9 of it with what rounding may add."""
    exact = _shannon_exactly(i)
    gain, rounding = stab(i)
    return abs(gain - exact), 1e-9 * exact + rounding


_claim = partial(Claim, paper=PAPER, kind="<=", tolerance=1e-9, reason=FLOOR)

_Z = {
    "tsallis": "eta sqrt(pi) (c - x)",
    "power": "eta pi^(1-q) (c - x) / q",
    "log_barrier": "eta pi (c - x)",
    "shannon": "eta (c - x)",
}
_STABILITIES: tuple[tuple[str, str, str, float, str, Callable[[Floats], Floats]], ...] = (
    ("tsallis", "", "L8", -1.0, "eta sum_a pi^(3/2) (c - x)^2 / (1 + z)", lambda z: z**2 / (1 + z)),
    ("tsallis", "_bounded", "L8", -0.5, "2 eta sum_a pi^(3/2) (c - x)^2", lambda z: 2 * z**2),
    ("tsallis", "_positive", "L8", 0.0, "eta sum_a pi^(3/2) (c - x)^2", lambda z: z**2),
    ("power", "_positive", "L8", 0.0, "eta / (2 q) sum_a pi^(2-q) (c - x)^2", lambda z: z**2 / 2),
    ("log_barrier", "", "L9", -1.0, "sum_a (z - ln(1 + z)) / eta", lambda z: z - np.log1p(z)),
    ("log_barrier", "_bounded", "L9", -0.5, "sum_a eta pi^2 (c - x)^2", lambda z: z**2),
    ("log_barrier", "_positive", "L9", 0.0, "sum_a eta pi^2 (c - x)^2 / 2", lambda z: z**2 / 2),
    ("shannon", "", "L10", -20.0, "sum_a pi (e^-z - 1 + z) / eta", lambda z: np.expm1(-z) + z),
    ("shannon", "_bounded", "L10", -1.0, "eta sum_a pi (c - x)^2", lambda z: z**2),
    ("shannon", "_positive", "L10", 0.0, "eta sum_a pi (c - x)^2 / 2", lambda z: z**2 / 2),
)


def _stability_claim(
    kind: str, name: str, lemma: str, least: float, formula: str, bound: Callable[[Floats], Floats]
) -> Claim:
    return _claim(
        name=f"bobw_{kind}_stability{name}",
        where=f"best of both worlds, section 5, {lemma}",
        statement=f"For z = {_Z[kind]} {'>' if least == -1 else '>='} {least:g}: Stab / ({formula}) is at most 1.",
        draw=partial(draw_step, kind=kind, least=least),
        **relative(lambda i: against(i, bound)),
    )


CLAIMS = (
    *(_stability_claim(*row) for row in _STABILITIES),
    _claim(
        name="bobw_shannon_exactly",
        where="best of both worlds, section 5, L10",
        statement="Stab misses <pi, c> + ln(sum_a pi e^(-eta c)) / eta by no more than rounding.",
        draw=partial(draw_step, kind="shannon", least=-20.0),
        **relative(_missed),
    ),
)
