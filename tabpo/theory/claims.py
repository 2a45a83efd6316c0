"""A claim: a statement of a paper that can be evaluated on random instances, and its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer
from tabpo.streams import Purpose, stream

Instance = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """A statement ``left <= right`` or ``left == right`` about random instances.

    Attributes
    ----------
    name : str
    paper : str
        Where the statement comes from, as one cites it.
    where : str
        Equation, lemma or section.
    statement : str
        One sentence.
    draw : callable
        Takes a generator and returns an instance: a dict of numbers and arrays that has all that the two sides need.
    left, right : callable
        Take an instance and return a number or an array; if arrays, of one shape, and the claim is about each entry.
    kind : "<=" or "=="
    tolerance : float
        What rounding may add: ``left`` may exceed (or, for ``==``, miss) ``right`` by this multiple of
        ``max(1, |left|, |right|)``.
    reason : str
        Why the tolerance is what it is.
    """

    name: str
    paper: str
    where: str
    statement: str
    draw: Callable[[np.random.Generator], Instance]
    left: Callable[[Instance], ArrayLike]
    right: Callable[[Instance], ArrayLike]
    kind: Literal["<=", "=="]
    tolerance: float
    reason: str

    def __post_init__(self) -> None:
        if self.kind not in ("<=", "=="):
            raise InvalidInputError(f"the kind of a claim must be '<=' or '==', got {self.kind!r}")
        if not 0 <= self.tolerance < 1:
            raise InvalidInputError(f"the tolerance of a claim must be in [0, 1), got {self.tolerance}")

    def instance(self, seed: int, index: int) -> Instance:
        """Return instance number ``index`` of a seed, the one that :func:`check` has under that number."""
        return self.draw(stream(seed, Purpose.MDP, index))

    def sides(self, instance: Instance) -> tuple[Floats, Floats]:
        """Return both sides as arrays of one axis.

        Raises
        ------
        InvalidInputError
            If their shapes differ.
        """
        left, right = (np.asarray(side(instance), dtype=np.float64) for side in (self.left, self.right))
        if left.shape != right.shape or left.size == 0:
            raise InvalidInputError(
                f"the sides of the claim {self.name!r} must have one shape and at least one entry, "
                f"got {left.shape} and {right.shape}"
            )
        return left.ravel(), right.ravel()


@dataclass(frozen=True)
class ClaimReport:
    """What a check found.

    Attributes
    ----------
    claim : Claim
    n_instances, seed : int
    violations : int
        Instances on which the claim does not hold; a NaN counts as one.
    tightness : float
        Of a ``<=``, the largest left / right over entries of positive right side (1 is tight; NaN if there is none).
        Of a ``==``, the largest difference, relative to ``max(1, |left|, |right|)``.
    smallest_slack : float
        Smallest right - left of a ``<=``; minus the largest difference of a ``==``.
    worst_index : int
        Number of the worst instance: the largest excess if the claim is violated, else the one of the tightness.
    worst : dict
        The instance itself; ``claim.instance(seed, worst_index)`` draws it again.
    worst_left, worst_right : float
        Both sides at its worst entry.
    """

    claim: Claim
    n_instances: int
    seed: int
    violations: int
    tightness: float
    smallest_slack: float
    worst_index: int
    worst: Mapping[str, Any]
    worst_left: float
    worst_right: float

    @property
    def holds(self) -> bool:
        """Whether there was no violation."""
        return self.violations == 0

    def __str__(self) -> str:
        found = "no violation" if self.holds else f"{self.violations:,} VIOLATIONS"
        measure = "largest left / right" if self.claim.kind == "<=" else "largest difference"
        values = f"{self.worst_left:.6g} {self.claim.kind} {self.worst_right:.6g}"
        return (
            f"{self.claim.name} ({self.claim.where}): {found} in {self.n_instances:,} instances of seed {self.seed}; "
            f"{measure} {self.tightness:.3g}; worst is number {self.worst_index}: {values}"
        )


def check(claim: Claim, n_instances: int = 1000, seed: int = 0) -> ClaimReport:
    """Evaluate a claim on random instances.

    Instance ``i`` depends on the seed and on i only, so that more instances of a seed contain the fewer.

    Parameters
    ----------
    claim : Claim
        One of ``tabpo.theory.CLAIMS``, or your own.
    n_instances : int, at least 1
    seed : int, at least 0

    Returns
    -------
    ClaimReport

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or the sides of the claim do not fit each other.
    """
    if not isinstance(claim, Claim):
        raise InvalidInputError(f"check takes a Claim, such as tabpo.theory.CLAIMS['dapo_p3'], got {claim!r}")
    n_instances = positive_integer("n_instances", n_instances)
    violations, smallest_slack = 0, np.inf
    worst_excess = worst_score = _Worst()
    for index in range(n_instances):
        instance = claim.instance(seed, index)
        left, right = claim.sides(instance)
        excess = _excess(claim, left, right)
        violated = bool((~(excess <= claim.tolerance)).any())  # a NaN is a violation
        violations += violated
        slack = right - left if claim.kind == "<=" else -np.abs(right - left)
        smallest_slack = min(smallest_slack, float(slack.min()))
        if violated:
            worst_excess = worst_excess.or_worse(np.nan_to_num(excess, nan=np.inf), index, instance, left, right)
        worst_score = worst_score.or_worse(_score(claim, excess, left, right), index, instance, left, right)
    worst = worst_excess if violations else worst_score
    return ClaimReport(
        claim=claim,
        n_instances=n_instances,
        seed=seed,
        violations=violations,
        tightness=worst_score.score if np.isfinite(worst_score.score) else np.nan,
        smallest_slack=smallest_slack,
        worst_index=worst.index,
        worst=worst.instance,
        worst_left=worst.left,
        worst_right=worst.right,
    )


@dataclass(frozen=True)
class _Worst:
    score: float = -np.inf
    index: int = -1
    instance: Instance = field(default_factory=dict)
    left: float = np.nan
    right: float = np.nan

    def or_worse(self, scores: Floats, index: int, instance: Instance, left: Floats, right: Floats) -> _Worst:
        """Return this, or the entry of largest score if that is larger; the first instance is taken in any case."""
        entry = int(np.argmax(scores))
        if self.index >= 0 and not scores[entry] > self.score:
            return self
        return _Worst(float(scores[entry]), index, instance, float(left[entry]), float(right[entry]))


def _excess(claim: Claim, left: Floats, right: Floats) -> Floats:
    """Return by how much the claim is missed, relative to the size of its sides; NaN where a side is NaN."""
    scale = np.maximum(1.0, np.maximum(np.abs(left), np.abs(right)))
    difference = left - right
    return (difference if claim.kind == "<=" else np.abs(difference)) / scale


def _score(claim: Claim, excess: Floats, left: Floats, right: Floats) -> Floats:
    """Return how near each entry comes to a violation; -inf where the ratio of the sides means nothing."""
    if claim.kind == "==":
        return np.nan_to_num(excess, nan=np.inf)
    # Below the tolerance both sides are rounding, and so is their ratio.
    meaningful = right > max(claim.tolerance, np.finfo(np.float64).tiny)
    return np.where(meaningful, left / np.where(meaningful, right, 1.0), -np.inf)
