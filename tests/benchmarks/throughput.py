"""Run-episodes per second of the learners on one core, and where the time goes: ``make bench``.

For known-transition DAPO the machine's own floor is printed beside: what an episode's products and exponentials would
take at the rates that this core reaches on large ones. Then come all learners at one size, and how the cost of unknown
transitions grows with S and H. Figures are the best of several repetitions, by the processor time of this process,
which other processes disturb less than the clock; compare ratios, not times, across machines.
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
from tabpo.learners import DAPO, resolve
from tabpo.simulation import simulate
from tabpo.streams import UniformBlocks

SIZES = ((10, 20, 5), (20, 100, 10))
RUNS = (1, 16, 64, 256)
DELAY = 10
PRACTICAL = {"tuning": "practical"}
UNKNOWN = {"transitions": "unknown"}
LEARNERS = (
    ("dapo", PRACTICAL),
    ("bobw_tsallis", PRACTICAL),
    ("bobw_shannon", PRACTICAL),
    ("bobw_log_barrier", PRACTICAL),
    ("dilated_bonus_po", PRACTICAL),
    ("d_oppo", {}),
    ("dapo", PRACTICAL | UNKNOWN),
    ("bobw_tsallis", PRACTICAL | UNKNOWN),
    ("bobw_shannon", PRACTICAL | UNKNOWN),
    ("bobw_log_barrier", PRACTICAL | UNKNOWN),
    ("dilated_bonus_po", PRACTICAL | UNKNOWN),
    ("d_oppo", UNKNOWN),
    ("pomd", {}),
    ("oppo", {}),
    ("ucbvi", {}),
    ("ucrl2", {}),
)
GROWTH = ((5, 20, 5), (10, 20, 5), (20, 20, 5), (10, 10, 5), (10, 40, 5))


LEADERS = ("tsallis_leader", "shannon_leader", "log_barrier_leader")
EVERY_KERNEL = (
    *kernels.KERNELS,
    *kernels.FTRL_KERNELS,
    *kernels.BOX_KERNELS,
    *kernels.MODEL_KERNELS,
    *LEADERS,
)


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

    originals = {name: getattr(kernels, name) for name in EVERY_KERNEL}
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


def best_rate(environment: Environment, learner: Callable, n_runs: int, n_episodes: int, repetitions: int) -> float:
    """Return the most run-episodes per second of processor time of several repetitions."""
    seconds = []
    for seed in range(repetitions):
        began = time.process_time()
        simulate(environment, learner, n_episodes, n_runs, seed, checkpoints=1)
        seconds.append(time.process_time() - began)
    return n_runs * n_episodes / min(seconds)


def measured(
    environment: Environment, learner: Callable, n_runs: int, options: argparse.Namespace
) -> tuple[float, str]:
    """Return run-episodes per second, and the shares of the time in words."""
    trial = best_rate(environment, learner, n_runs, 50, 1)
    n_episodes = max(50, int(options.seconds * trial / n_runs))
    rate = best_rate(environment, learner, n_runs, n_episodes, options.repetitions)
    with timed_kernels() as seconds:
        whole = simulate(environment, learner, n_episodes, n_runs, 0, checkpoints=1)
    shares = {name: spent / whole.wall_seconds for name, spent in seconds.items()}
    shares["the rest"] = 1 - sum(shares.values())
    listed = sorted(shares.items(), key=lambda item: -item[1])
    return rate, ", ".join(f"{name} {share:.0%}" for name, share in listed if share >= 0.02)


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
    against_the_floor(options)
    every_learner(options)
    growth(options)


def random_environment(H: int, S: int, A: int) -> Environment:
    """Return the environment of the benchmark."""
    mdp = MDPS["random"](n_states=S, n_actions=A, horizon=H)
    return Environment(mdp, mdp.losses, DELAY)


def against_the_floor(options: argparse.Namespace) -> None:
    """Print DAPO's rate for several sizes and numbers of runs."""
    for H, S, A in SIZES:
        floor = machine_floor(H, S, A)
        print(f"\nDAPO, (H, S, A) = ({H}, {S}, {A}), delay {DELAY}, one core; floor {floor:,.0f} run-episodes/s")
        for n_runs in RUNS:
            rate, shares = measured(random_environment(H, S, A), partial(DAPO, tuning="practical"), n_runs, options)
            print(f"  R = {n_runs:3d}: {rate:9,.0f} run-episodes/s ({rate / floor:.0%} of the floor)\n     {shares}")


def every_learner(options: argparse.Namespace) -> None:
    """Print all learners' rates at the first size."""
    print(f"\nLearners, (H, S, A) = {SIZES[0]}, delay {DELAY}, R = 64")
    environment = random_environment(*SIZES[0])
    for name, parameters in LEARNERS:
        rate, shares = measured(environment, resolve(name, parameters), 64, options)
        label = f"{name}, {parameters.get('transitions', '')}".rstrip(", ")
        print(f"  {label:26s} {rate:9,.0f} run-episodes/s\n     {shares}")


def growth(options: argparse.Namespace) -> None:
    """Print how the cost of unknown transitions grows."""
    print("\nbobw_tsallis, unknown transitions, R = 64")
    for sizes in GROWTH:
        rate, shares = measured(random_environment(*sizes), resolve("bobw_tsallis", PRACTICAL | UNKNOWN), 64, options)
        print(f"  (H, S, A) = {sizes!s:12s} {rate:9,.0f} run-episodes/s\n     {shares}")


if __name__ == "__main__":
    main()
