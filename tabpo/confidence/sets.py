"""The confidence sets that a learner keeps: counts, radius and epochs in one object for all runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.confidence.counts import VisitCounts
from tabpo.confidence.history import History, Kept, Snapshot
from tabpo.confidence.radii import RADII
from tabpo.errors import InvalidInputError, unknown
from tabpo.kernels import Boxes, PackedBoxes
from tabpo.kernels.plain_boxes import bernstein_radius


class Seen(Protocol):
    """A trajectory: of an episode's end, or of an arriving feedback."""

    @property
    def states(self) -> Array:
        """The states (H, R)."""

    @property
    def actions(self) -> Array:
        """The actions (H, R)."""


@dataclass(frozen=True)
class ConfidenceSettings:
    """What the sets depend on; all of it is to be reported with every result.

    Attributes
    ----------
    radius : "delayed_uob_reps", "uob_reps", "dilated_bonuses" or "uob_ftrl"
        See :data:`tabpo.confidence.RADII`.
    failure_probability : float in (0, 1)
        delta.
    width_scale : float or (R,), at least 0
        Multiplies the radius. The theory has 1, which is vacuous for small counts; 0 takes the empirical model.
    bias_scale : float or (R,), at least 0
        Multiplies the term in ``upper - lower`` of the learner's bonus; the sets do not depend on it.
    refresh : "epoch" or "episode"
        When a run's sets follow its counts: at the start of its epochs, or with every trajectory counted.
    counts : "immediate" or "lagged"
        Which trajectories the learner counts: those seen, or those whose losses have arrived.
    """

    radius: Literal["delayed_uob_reps", "uob_reps", "dilated_bonuses", "uob_ftrl"] = "delayed_uob_reps"
    failure_probability: float = 0.1
    width_scale: Any = 1.0
    bias_scale: Any = 1.0
    refresh: Literal["epoch", "episode"] = "epoch"
    counts: Literal["immediate", "lagged"] = "immediate"

    def __post_init__(self) -> None:
        if self.radius not in RADII:
            raise unknown("radius", self.radius, RADII)
        for name, allowed in (("refresh", ("epoch", "episode")), ("counts", ("immediate", "lagged"))):
            if getattr(self, name) not in allowed:
                raise InvalidInputError(f"{name} must be '{allowed[0]}' or '{allowed[1]}', got {getattr(self, name)!r}")
        for name in ("width_scale", "bias_scale"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if value.ndim > 1 or not np.all(np.isfinite(value) & (value >= 0)):
                raise InvalidInputError(
                    f"{name} must be finite and at least 0, one number or one per run, got {getattr(self, name)!r}"
                )

    @property
    def reported(self) -> dict[str, Any]:
        """The settings by name, for a learner's ``settings``."""
        return asdict(self)


class ConfidenceSets:
    """One confidence set for each run, refreshed as the counts grow.

    A row's set holds the distributions within the radius of the empirical one at the last refresh; before any visit the
    centre is uniform, with the radius of zero visits.

    Parameters
    ----------
    shape : (H, S, A)
    n_runs : int
    n_episodes : int
        K, for the logarithm.
    settings : ConfidenceSettings
    xp : namespace
        Array library.

    Attributes
    ----------
    counts : VisitCounts
    log_term : float
        iota.
    boxes : :class:`tabpo.kernels.Boxes` or :class:`tabpo.kernels.PackedBoxes`
        The sets in force, as the kernels take them.
    visits_in_force : int, (H, S, A, R)
        The visits that they come from.

    Raises
    ------
    InvalidInputError
        If delta or the length of ``width_scale`` is wrong.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_runs: int,
        n_episodes: int,
        settings: ConfidenceSettings | None = None,
        xp: Any = np,
    ) -> None:
        self.settings = ConfidenceSettings() if settings is None else settings
        self.constants = RADII[self.settings.radius]
        self.log_term = self.constants.log_term(shape, n_episodes, self.settings.failure_probability)
        self.counts = VisitCounts(shape, n_runs, xp)
        scale = np.asarray(self.settings.width_scale, dtype=np.float64)
        if scale.ndim == 1 and scale.size not in (1, n_runs):
            raise InvalidInputError(f"width_scale has {scale.size} entries for {n_runs} runs")
        self.width_scale = xp.asarray(np.array(np.broadcast_to(scale, (n_runs,))))
        self.boxes: Boxes | PackedBoxes = self._first(shape, n_runs, xp)
        self.visits_in_force: Array = xp.zeros_like(self.counts.visits)
        self._history: History | None = None

    def _first(self, shape: tuple[int, int, int], n_runs: int, xp: Any) -> Boxes | PackedBoxes:
        n_steps, n_states, n_actions = shape
        centre = xp.full((1, 1, 1, 1, n_runs), 1.0 / n_states)
        radius = bernstein_radius(centre, xp.zeros((1, 1, 1, n_runs), dtype=xp.int64), *self._radius)
        row = Boxes.around(centre, radius)
        full = (n_steps, n_states, n_actions, n_states, n_runs)
        boxes = Boxes(xp.broadcast_to(row.lowest, full), xp.broadcast_to(row.highest, full))
        return boxes.packed if xp is np and kernels.backend() != "numpy" else boxes

    @property
    def _radius(self) -> tuple[float, float, int, float, Array]:
        """The arguments of a kernel that describe the radius."""
        constants = self.constants
        return constants.root, constants.linear, constants.offset, self.log_term, self.width_scale

    def observe(self, trajectories: Iterable[Seen]) -> None:
        """Count trajectories, (H, R) states and actions each, and refresh the sets that are due.

        For immediate counts hand over ``arrivals.trajectories``, for lagged ones ``arrivals``, the feedback itself.
        """
        counts = self.counts
        before = counts.n_trajectories
        for trajectory in trajectories:
            counts.add(trajectory.states, trajectory.actions)
        if counts.n_trajectories == before:
            return
        due = counts.begin_epochs()
        if self.settings.refresh == "episode":
            due = namespace(due).ones_like(due)
        with self._recording(due):
            self.boxes, self.visits_in_force = kernels.refresh_boxes(
                self.boxes, counts.transitions, counts.visits, self.visits_in_force, due, *self._radius
            )

    def _recording(self, due: Array) -> AbstractContextManager[None]:
        """Return the context in which the sets of the runs that are due may be updated."""
        if not isinstance(self.boxes, PackedBoxes) or self._history is None or not self._history.forget():
            return nullcontext()
        changed = ((due > 0) & (self.counts.visits != self.visits_in_force))[:-1]  # no next state after the last step
        at = np.flatnonzero(changed)
        if len(at) == 0:
            return nullcontext()
        h, s, a, r = np.unravel_index(at, changed.shape)
        return self._history.changing(self.boxes.where(r, h, s, a))

    def snapshot(self) -> Snapshot:
        """Return the sets in force, to be handed to :meth:`evaluate` later. Dropping it frees the memory it takes."""
        if not isinstance(self.boxes, PackedBoxes):
            return Kept(self.boxes)
        if self._history is None or self._history.live is not self.boxes:
            self._history = History(self.boxes)
        return self._history.snapshot()

    def occupancy_bounds(self, initial: Array, policy: Array) -> tuple[Array, Array]:
        """Return the upper and the lower state occupancy (H, S, R) of policies (H, S, A, R) over the sets in force.

        See :func:`tabpo.confidence.occupancy_bounds`; nothing is checked here.
        """
        bounds: tuple[Array, Array] = kernels.occupancy_bounds(self.boxes, initial, policy)
        return bounds

    def occupancy_bounds_at(self, h: int, initial: Array, policy: Array) -> tuple[Array, Array]:
        """Return the upper and the lower occupancy (S, R) of the states of step h, those of :meth:`occupancy_bounds`.

        Only ``policy[:h]`` is read, so that a policy that depends on them can be computed step by step.
        """
        bounds: tuple[Array, Array] = kernels.occupancy_bounds_at(self.boxes, initial, policy, h)
        return bounds

    def evaluate(
        self,
        losses: Array,
        policy: Array,
        largest: bool = True,
        dilation: float = 0.0,
        snapshot: Snapshot | None = None,
    ) -> tuple[Array, Array]:
        """Return the extreme action values and state values of policies (H, S, A, R) over the sets in force.

        See :func:`tabpo.confidence.extended_evaluate`; ``losses`` are (H, S, A or 1, R or 1). With a snapshot the sets
        are those that were in force when it was taken. Nothing is checked here.
        """
        boxes = self.boxes if snapshot is None else snapshot.boxes
        values: tuple[Array, Array] = kernels.extended_q_values(boxes, losses, policy, dilation, largest)
        return values

    def bounds(self) -> tuple[Array, Array]:
        """Return the least and the greatest probabilities of the sets in force, (H, S, A, S, R) each."""
        boxes = self.boxes.dense if isinstance(self.boxes, PackedBoxes) else self.boxes
        return boxes.lowest, boxes.highest
