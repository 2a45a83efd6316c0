"""The sets of earlier episodes, for feedback that comes late, at the price of the rows that have changed since.

With delayed feedback the bonus of an episode is backed up over the sets that were in force when it was played, whereas
the compiled kernels update the sets in place. A :class:`History` keeps what was changed, as far back as somebody holds
a snapshot, and moves one copy of the sets from version to version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Protocol
from weakref import WeakValueDictionary

from tabpo import kernels
from tabpo.arrays import Array
from tabpo.kernels import Boxes, PackedBoxes


class Snapshot(Protocol):
    """The sets that were in force at one time."""

    @property
    def boxes(self) -> Boxes | PackedBoxes:
        """The sets, for reading; they stay as they are until another snapshot's are asked for."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A snapshot of sets that are replaced, not updated: the sets themselves."""

    boxes: Boxes


class Version:
    """A snapshot of sets that are updated in place. What it needs is kept as long as it is referred to."""

    def __init__(self, history: History, number: int) -> None:
        self._history = history
        self._number = number

    @property
    def boxes(self) -> PackedBoxes:
        """See :class:`Snapshot`."""
        return self._history.at(self._number)


class Change:
    """The rows in which two successive versions differ, as they are in one of them.

    Parameters
    ----------
    boxes : PackedBoxes
        That version.
    where : int, (rows, 4)
        See :func:`tabpo.kernels.take_rows`.
    """

    def __init__(self, boxes: PackedBoxes, where: Array) -> None:
        self.where = where
        self.rows = kernels.take_rows(boxes, where)

    def exchange(self, boxes: PackedBoxes) -> None:
        """Take ``boxes`` from the one version to the other, and keep the rows that they had."""
        kernels.exchange_rows(boxes, self.where, self.rows)


class History:
    """Versions of packed sets that are updated in place, from the oldest that has a snapshot to the newest.

    A single copy of the sets serves all versions but the newest. It is at one of them, and each change holds its rows
    as they are on the side where the copy is not; going across exchanges the two. Until the copy is needed there is
    none, and the live sets stand for it: learners that never look back pay for nothing.

    Parameters
    ----------
    live : PackedBoxes
        The newest version. Its updates are to be made under :meth:`changing`, unless :meth:`forget` says otherwise.
    """

    def __init__(self, live: PackedBoxes) -> None:
        self.live = live
        self._newest = 0
        self._changes: deque[Change] = deque()  # the last one leads to the newest version
        self._held: WeakValueDictionary[int, Version] = WeakValueDictionary()  # in the order of their numbers
        self._copy: PackedBoxes | None = None
        self._at = 0  # the copy's version

    def snapshot(self) -> Version:
        """Return a snapshot of the newest version."""
        version = self._held.get(self._newest)
        if version is None:
            self._held[self._newest] = version = Version(self, self._newest)
        return version

    def forget(self) -> bool:
        """Drop what only snapshots needed that nobody holds any more; return whether the next change is to be kept."""
        oldest = next(iter(self._held.keys()), self._newest)
        if self._copy is not None and self._at < oldest:
            self._moved(self._copy, oldest)
        while self._newest - len(self._changes) < oldest:
            self._changes.popleft()
        return self._copy is not None or len(self._held) > 0

    @contextmanager
    def changing(self, where: Array) -> Iterator[None]:
        """Begin a new version; these rows of the live sets are updated while the context lasts."""
        change = Change(self.live, where)
        yield
        self._changes.append(change if self._copy is None else Change(self.live, where))
        self._newest += 1

    def at(self, number: int) -> PackedBoxes:
        """Return the sets of a version for which a snapshot is held."""
        if number == self._newest:
            return self.live
        if self._copy is None:
            self._copy, self._at = self.live.copy(), self._newest
        return self._moved(self._copy, number)

    def _moved(self, copy: PackedBoxes, number: int) -> PackedBoxes:
        """Move the copy to a version."""
        first = self._newest - len(self._changes)
        if number < self._at:
            for change in islice(reversed(self._changes), self._newest - self._at, self._newest - number):
                change.exchange(copy)
        else:
            for change in islice(self._changes, self._at - first, number - first):
                change.exchange(copy)
        self._at = number
        return copy
