"""Confidence sets of the transitions: visit counts, epochs, radii, and what is extreme over a set.

A set holds, for every (h, s, a), the distributions within a radius of the empirical one, entry by entry. Its rows vary
freely, so that the greatest and the least probability of reaching a state, or expectation of a value, follow exactly
from a dynamic programme whose inner step hands out probability greedily (DAPO specification, sections 3.1 and 3.2;
best-of-both-worlds specification, section 2.2).

Arrays are (H, S, A, S) and (H, S, A), with or without a run axis at the end.
"""

from __future__ import annotations

from tabpo.confidence.bounds import (
    extended_best_response,
    extended_evaluate,
    extreme_distribution,
    occupancy_bounds,
    optimistic_backup,
    pessimistic_backup,
)
from tabpo.confidence.counts import VisitCounts
from tabpo.confidence.radii import (
    RADII,
    Radius,
    delayed_uob_reps_radius,
    dilated_bonuses_radius,
    uob_ftrl_radius,
    uob_reps_radius,
)
from tabpo.confidence.sets import ConfidenceSets, ConfidenceSettings

__all__ = [
    "RADII",
    "ConfidenceSets",
    "ConfidenceSettings",
    "Radius",
    "VisitCounts",
    "delayed_uob_reps_radius",
    "dilated_bonuses_radius",
    "extended_best_response",
    "extended_evaluate",
    "extreme_distribution",
    "occupancy_bounds",
    "optimistic_backup",
    "pessimistic_backup",
    "uob_ftrl_radius",
    "uob_reps_radius",
]
