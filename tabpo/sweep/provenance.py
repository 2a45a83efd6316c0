"""Where a cell's numbers came from: versions, git revisions, machine, wall time."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabpo.sweep.cells import Cell
from tabpo.sweep.grid import plain
from tabpo.versions import installed_version

VERSIONED = ("tabpo", "numpy", "scipy", "numba", "pandas", "pyarrow", "gymnasium")


def provenance(cell: Cell, resolved: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return what is stored beside a cell's numbers; ``resolved`` are the learner's settings."""
    return {
        "settings": cell.settings,
        "learner": plain(resolved),
        "labels": {name: part.label for name, part in cell.parts.items()},
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {
            "name": socket.gethostname(),
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "wall_time_seconds": round(seconds, 3),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


@functools.cache
def _versions() -> dict[str, str]:
    return {name: found for name in VERSIONED if (found := installed_version(name))}


def revisions(folder: Path) -> dict[str, str]:
    """Return the git revisions of tabpo's own source and of the config's folder, where there are any.

    A trailing ``+`` says that files differ from the revision.
    """
    found = {"tabpo": _revision(Path(__file__).parent), "config": _revision(folder)}
    return {name: revision for name, revision in found.items() if revision}


def _revision(folder: Path) -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""
