"""A small sweep for the tests, with user-written learners that are slow, fail or die on request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFIG = """
name = "small"
seed = 7
n_episodes = 300
n_runs = 5
runs_per_cell = 2
checkpoints = 8
[[mdps]]
kind = "random"
n_states = 3
n_actions = 2
horizon = 2
[[losses]]
kind = "bernoulli"
[[delays]]
kind = "geometric"
grid = { mean = [1, 4] }
[[learners]]
kind = "dapo"
grid = { step_size = [0.05, 0.2] }
"""

LEARNERS = '''
import os
import time
import numpy as np

class Uniform:
    """Plays every action alike; `pause` seconds an episode, `trouble` at episode 20."""

    def __init__(self, problem, pause: float = 0.0, trouble: str = ""):
        self.policy = np.full((problem.horizon, problem.n_states, problem.n_actions), 1 / problem.n_actions)
        self.pause, self.trouble = pause, trouble

    def act(self, k):
        time.sleep(self.pause)
        if k == 20 and self.trouble == "raise":
            raise RuntimeError("lost my way")
        if k == 20 and self.trouble == "die":
            os._exit(3)
        return self.policy

    def learn(self, k, arrivals):
        pass
'''

SCRIPT = """
import sys
from tabpo.sweep import run_experiment
try:
    run_experiment(sys.argv[1], sys.argv[2], workers=int(sys.argv[3]))
except KeyboardInterrupt as stop:
    print(stop)
    sys.exit(130)
"""


def write_config(folder: Path, text: str = CONFIG, name: str = "sweep.toml") -> Path:
    """Return the config's path; the learners' file lies beside it."""
    (folder / "mine.py").write_text(LEARNERS)
    path = folder / name
    path.write_text(text)
    return path


def numbers(folder: Path) -> dict[str, bytes]:
    """Return the cells' files, byte by byte."""
    return {path.name: path.read_bytes() for path in (folder / "cells").glob("*.parquet")}


def start(config: Path, output: Path, workers: int) -> subprocess.Popen[str]:
    """Run a sweep in a process group of its own."""
    command = [sys.executable, "-c", SCRIPT, str(config), str(output), str(workers)]
    return subprocess.Popen(command, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
