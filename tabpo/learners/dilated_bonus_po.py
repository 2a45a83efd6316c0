"""Policy optimization with dilated bonuses (Luo, Wei, Lee, NeurIPS 2021): DAPO without delays, and its predecessor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tabpo.arrays import Array
from tabpo.learners.dapo import DAPO, DAPOParameters
from tabpo.learners.models import RadiusName
from tabpo.learners.protocol import Feedback, Problem, per_run


@dataclass(frozen=True)
class DilatedBonusPOParameters(DAPOParameters):
    """Parameters of :class:`DilatedBonusPO`: those of DAPO, with other values by default.

    Attributes
    ----------
    radius : str
        ``"dilated_bonuses"``, the paper's.
    tuning : "theory" or "practical"
        theory: ``step_size = min{1 / (24 H^3), 1 / (H sqrt(S A K))}``, ``exploration = 2 step_size H``,
        ``bonus_scale = 1`` (section 8c of the specification; H S states in layers). practical: as DAPO's.
    adapt : bool
        False: the algorithm knows of no delays, and treats feedback that comes late like fresh one.
    dilation : bool
        True.
    """

    radius: RadiusName = "dilated_bonuses"
    adapt: bool = False
    dilation: bool = True

    def theory(self, problem: Problem) -> tuple[float, float, float]:
        """Return the theory's step size, exploration per step size, and bonus scale."""
        H, S, A = problem.mdp.shape
        return min(1 / (24 * H**3), 1 / (H * (S * A * problem.n_episodes) ** 0.5)), 2.0 * H, 1.0


class DilatedBonusPO(DAPO):
    """Policy optimization whose bonus grows by 1 + 1/H with every step that it is backed up.

    With unknown transitions it is DAPO's box with ``r = 1`` and that dilation. With known ones the bonus is the simpler
    ``b(s) = step_size H^2 A / (mu(s) + gamma)``, which covers the second moment ``step_size E<pi, Qhat^2>`` of the
    estimator; with ``bonus_scale = 3`` it covers the bias ``E<pi, Q - Qhat>`` as well, which is due to
    ``gamma = 2 step_size H`` in the estimator's denominator (derived; section 8c of the specification).
    """

    Parameters = DilatedBonusPOParameters

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        super().__init__(problem, **parameters)
        per_run("exploration", self.exploration, problem, positive=True)
        self.simple_weight = self.bonus_scale * self.step_size * problem.horizon**2 * problem.n_actions

    def bonus(self, j: Feedback, upper: Array, lower: Array | None) -> Array:
        """Return b^j, shape (H, S, R)."""
        if lower is not None:
            return super().bonus(j, upper, lower)
        return self.simple_weight / (upper + self.exploration)  # eta H^2 A / (mu^j + gamma)
