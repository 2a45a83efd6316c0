"""What is installed, what is missing, and how to install it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass

from tabpo import __version__
from tabpo.versions import installed_version

NEEDED = (
    "numpy", "scipy", "numba", "pandas", "pyarrow", "pydantic", "matplotlib", "networkx", "typer", "rich", "loky",
    "array-api-compat", "threadpoolctl",
)  # fmt: skip

PARTS = {
    "gymnasium": (("gymnasium",), "environments in and out"),
    "cluster": (("dask", "distributed"), "sweeps on a Dask cluster"),
    "gpu": (("cupy-cuda12x",), "simulation on an NVIDIA GPU"),
}
"""Optional parts: the packages that each brings, and what it is for."""

CUPY = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy")


@dataclass(frozen=True)
class Report:
    """What ``tabpo doctor`` found.

    Attributes
    ----------
    text : str
    healthy : bool
        Whether everything that is needed is there.
    """

    text: str
    healthy: bool


def examine() -> Report:
    """Return what is installed and what is missing; nothing is changed and nothing heavy imported but CuPy."""
    lines = [f"tabpo       {__version__}", f"Python      {platform.python_version()} ({sys.executable})"]
    lines += [f"system      {platform.system()} {platform.machine()}, {_cores()}", "", "needed"]
    versions = {name: installed_version(name) for name in NEEDED}
    lines += [f"  {name:<17} {found or 'MISSING: pip install ' + name}" for name, found in versions.items()]
    lines += ["", "optional"]
    for extra, (packages, purpose) in PARTS.items():
        lines += _part(extra, packages, purpose)
    lines += ["", "GPU", *(f"  {line}" for line in _gpu())]
    return Report("\n".join(lines) + "\n", all(versions.values()))


def _part(extra: str, packages: tuple[str, ...], purpose: str) -> list[str]:
    found = [_cupy() if name.startswith("cupy") else (name, installed_version(name)) for name in packages]
    if all(version for _, version in found):
        told = ", ".join(f"{name} {version}" for name, version in found)
        return [f"  {extra:<17} {told} ({purpose})"]
    return [f"  {extra:<17} missing ({purpose})", f'  {"":<17} pip install "tabpo[{extra}]"']


def _cupy() -> tuple[str, str | None]:
    for name in CUPY:
        if version := installed_version(name):
            return name, version
    return CUPY[0], None


def _cores() -> str:
    count = os.cpu_count() or 1
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count
    return f"{count} CPU cores" + (f" ({ours} for this process)" if ours != count else "")


def _gpu() -> list[str]:
    """Return what the driver and CuPy say."""
    lines = [f"driver: {_driver()}"]
    if _cupy()[1] is None:
        return [*lines, "CuPy: missing; simulations use the CPU"]
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
        runtime = cupy.cuda.runtime.runtimeGetVersion()
        names = [cupy.cuda.runtime.getDeviceProperties(i)["name"].decode() for i in range(count)]
    except Exception as error:  # a driver that does not fit shows in many ways
        return [*lines, f"CuPy: installed but not usable ({error})"]
    return [*lines, f"CuPy: CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}, {', '.join(names) or 'no device'}"]


def _driver() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "none found (no nvidia-smi)"
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "nvidia-smi is there but does not answer"
    return said.replace("\n", "; ") or "no device"
