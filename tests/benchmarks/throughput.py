"""Run-episodes per second of known-transition DAPO on one core, and where the time goes: ``make bench``.

The machine's own floor is printed beside: what an episode's products and exponentials would take at the rates that this
core reaches on large ones. Figures are the best of several repetitions, by the processor time of this process, which
other processes disturb less than the clock; compare ratios, not times, across machines.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from tabpo import kernels
from tabpo.environments import MDPS, Environment
from tabpo.kernels import compiled
from tabpo.learners import DAPO
from tabpo.simulation import simulate
from tabpo.streams import UniformBlocks

SIZES = ((10, 20, 5), (20, 100, 10))
RUNS = (1, 16, 64, 256)
DELAY = 10


@contextmanager
def timed_kernels() -> Iterator[dict[str, float]]:
    """Add up the seconds spent in each kernel, and in drawing random numbers, while the context lasts."""
    seconds: dict[str, float] = defaultdict(float)

    def timing(name: str, function: Callable) -> Callable:
        def timed(*arguments):
            began = time.perf_counter()
            result = function(*arguments)
            seconds[name] += time.perf_counter() - began
            return result

        return timed

    originals = {name: getattr(kernels, name) for name in kernels.KERNELS}
    draw = UniformBlocks.next
    try:
        for name, function in originals.items():
            setattr(kernels, name, timing(name, function))
        UniformBlocks.next = timing("random numbers", draw)
        yield seconds
    finally:
        for name, function in originals.items():
            setattr(kernels, name, function)
        UniformBlocks.next = draw


def best_rate(environment: Environment, n_runs: int, n_episodes: int, repetitions: int) -> float:
    """Return the most run-episodes per second of processor time of several repetitions."""
    seconds = []
    for seed in range(repetitions):
        began = time.process_time()
        simulate(environment, partial(DAPO, tuning="practical"), n_episodes, n_runs, seed, checkpoints=1)
        seconds.append(time.process_time() - began)
    return n_runs * n_episodes / min(seconds)


def machine_floor(H: int, S: int, A: int) -> float:
    """Return run-episodes per second if an episode were its two products and its exponentials alone."""
    rng = np.random.default_rng(0)
    left, right, out = rng.random((512, 512)), rng.random((512, 256)), np.empty((512, 256))
    products = min(_seconds(lambda: np.matmul(left, right, out=out)) for _ in range(20)) / out.size / 512
    exponents, e = -rng.random(1 << 14), np.empty(1 << 14)
    exponentials = min(_seconds(lambda: compiled.exp_array(exponents, e)) for _ in range(50)) / e.size
    return 1 / (2 * H * S * A * S * products + H * S * A * exponentials)


def _seconds(function: Callable) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="aimed length of one repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    kernels.warm_up()
    for H, S, A in SIZES:
        mdp = MDPS["random"](n_states=S, n_actions=A, horizon=H)
        environment = Environment(mdp, mdp.losses, DELAY)
        floor = machine_floor(H, S, A)
        print(f"\nDAPO, (H, S, A) = ({H}, {S}, {A}), delay {DELAY}, one core; floor {floor:,.0f} run-episodes/s")
        for n_runs in RUNS:
            trial = best_rate(environment, n_runs, 50, 1)
            n_episodes = max(50, int(options.seconds * trial / n_runs))
            rate = best_rate(environment, n_runs, n_episodes, options.repetitions)
            with timed_kernels() as seconds:
                whole = simulate(environment, partial(DAPO, tuning="practical"), n_episodes, n_runs, 0, checkpoints=1)
            shares = {name: spent / whole.wall_seconds for name, spent in seconds.items()}
            shares["the rest"] = 1 - sum(shares.values())
            print(f"  R = {n_runs:3d}: {rate:9,.0f} run-episodes/s ({rate / floor:.0%} of the floor)")
            listed = sorted(shares.items(), key=lambda item: -item[1])
            print("     " + ", ".join(f"{name} {share:.0%}" for name, share in listed if share >= 0.01))


if __name__ == "__main__":
    main()
