"""Errors at the border: sentences that name the thing at fault and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TabpoError(Exception):
    """Base of the errors that tabpo raises on purpose."""


class InvalidInputError(TabpoError, ValueError):
    """An argument, a file or a configuration that cannot be used as it is."""


class MissingPartError(TabpoError, ImportError):
    """An optional part (Gymnasium, Dask, CuPy, ...) is needed and not installed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the known name closest to ``name``, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: object, known: Iterable[str]) -> InvalidInputError:
    """Return the error for a name that is not among the known ones; the nearest known one is named."""
    known = sorted(known)
    return InvalidInputError(f"unknown {what} {name!r}{nearest(str(name), known)} (known: {', '.join(known)})")
