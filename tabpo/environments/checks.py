"""Checks of the numbers that describe loss sequences and delay laws."""

from __future__ import annotations

import numpy as np

from tabpo.errors import InvalidInputError


def check_number(name: str, value: object, lowest: float, highest: float = np.inf, open_below: bool = False) -> None:
    """Raise an InvalidInputError unless ``value`` is a finite number in [lowest, highest], or (lowest, highest]."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if is_number and np.isfinite(value) and lowest <= value <= highest and not (open_below and value == lowest):  # type: ignore[operator, call-overload]
        return
    above = f"above {lowest:g}" if open_below else f"of at least {lowest:g}"
    at_most = f" and at most {highest:g}" if np.isfinite(highest) else ""
    raise InvalidInputError(f"{name} must be a number {above}{at_most}, got {value!r}")
