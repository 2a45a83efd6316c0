"""Fixtures shared by the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> dict[str, Any]:
    """Return a file of reference values computed independently of this project."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


def random_policy(rng: np.random.Generator, H: int, S: int, A: int, R: int, concentration: float = 0.7) -> np.ndarray:
    """Return policies (H, S, A, R), far from uniform for a small concentration."""
    return np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.full(A, concentration), (H, S, R)), -1, 2))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20231)
