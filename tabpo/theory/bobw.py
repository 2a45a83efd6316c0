"""Best of both worlds (Dann, Wei, Zimmert, ICML 2023): what its regret bounds rest on, as claims.

Sections are those of the formulas page, best of both worlds.
"""

from tabpo.theory import (
    bobw_bonus,
    bobw_conditions,
    bobw_cover,
    bobw_estimator,
    bobw_ftrl,
    bobw_occupancy,
    bobw_regret,
    bobw_stability,
    bobw_sums,
)

CLAIMS = (
    *bobw_bonus.CLAIMS,
    *bobw_estimator.CLAIMS,
    *bobw_occupancy.CLAIMS,
    *bobw_ftrl.CLAIMS,
    *bobw_stability.CLAIMS,
    *bobw_sums.CLAIMS,
    *bobw_cover.CLAIMS,
    *bobw_conditions.CLAIMS,
    *bobw_regret.CLAIMS,
)
