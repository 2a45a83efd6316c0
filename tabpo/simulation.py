"""Plays a learner in an environment, R runs in lockstep, and records exact regret."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabpo import kernels, planning
from tabpo.arrays import Array
from tabpo.environments.environment import Environment, RealisedEnvironment
from tabpo.environments.losses_base import Adversary
from tabpo.errors import InvalidInputError, TabpoError
from tabpo.learners import resolve
from tabpo.learners.protocol import Arrivals, Feedback, Learner, Problem, Trajectory, notes_of
from tabpo.mdp import TabularMDP, positive_integer
from tabpo.streams import Purpose, UniformBlocks

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
DEFAULT_CHECKPOINTS = 100


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Regret of R runs at C checkpoints, computed from expectations.

    Attributes
    ----------
    episodes : int, (C,)
        Episodes completed at each checkpoint; the last is K.
    runs : int, (R,)
        Indices of the runs.
    regret : (C, R), loss units
        Expected loss so far minus that of the best fixed policy for the losses so far.
    final_regret : (C, R)
        Expected loss so far minus that of the best fixed policy for all K episodes.
    expected_loss, sampled_loss : (C, R)
        Cumulative: of the policies played, exactly; and of the trajectories drawn.
    comparator_loss, final_comparator_loss : (C, R)
        Cumulative expected loss of the two comparators; the same for all runs unless the losses adapt to the policies.
    lost_feedback : int
        Episodes whose feedback would have arrived after the last one.
    total_delay, max_delay : int
        Over ``min(delay, K)``.
    settings : dict
        The learner's resolved parameters.
    wall_seconds : float
    """

    episodes: NDArray[np.int64]
    runs: NDArray[np.int64]
    regret: Floats
    final_regret: Floats
    expected_loss: Floats
    sampled_loss: Floats
    comparator_loss: Floats
    final_comparator_loss: Floats
    lost_feedback: int
    total_delay: int
    max_delay: int
    settings: dict[str, Any] = field(default_factory=dict)
    wall_seconds: float = 0.0

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per checkpoint and run."""
        import pandas as pd

        n_checkpoints, n_runs = self.regret.shape
        columns = {
            "episode": np.repeat(self.episodes, n_runs),
            "run": np.tile(self.runs, n_checkpoints),
            "regret": self.regret.ravel(),
            "final_regret": self.final_regret.ravel(),
            "expected_loss": self.expected_loss.ravel(),
            "sampled_loss": self.sampled_loss.ravel(),
            "comparator_loss": self.comparator_loss.ravel(),
            "final_comparator_loss": self.final_comparator_loss.ravel(),
        }
        return pd.DataFrame(columns)


def simulate(
    environment: Environment,
    learner: str | Callable[[Problem], Learner],
    n_episodes: int,
    n_runs: int = 1,
    seed: int = 0,
    *,
    runs: Sequence[int] | None = None,
    checkpoints: int | Sequence[int] | None = None,
    progress: Callable[[int], None] | None = None,
    xp: Any = None,
) -> SimulationResult:
    """Play ``n_runs`` independent runs of a learner for ``n_episodes`` episodes.

    Runs share the environment's losses and delays and differ in the trajectories drawn; losses that adapt to the policy
    are each run's own, and so is the best fixed policy that its regret compares with. A run's numbers depend on the
    seed and its index only.

    Parameters
    ----------
    environment : Environment
    learner : str or callable
        A name in ``tabpo.learners.LEARNERS``, a learner class, or any function of a :class:`Problem` that returns a
        learner (``functools.partial(DAPO, bonus_scale=0.1)``, say).
    n_episodes, n_runs : int, at least 1
        K and R.
    seed : int, at least 0
    runs : sequence of R ints, optional
        Indices of the runs, 0 ... R-1 by default.
    checkpoints : int or increasing sequence of ints, optional
        How many log-spaced checkpoints (default 100), or after which episodes to record. K is always recorded.
    progress : callable, optional
        Called with the number of episodes played, several times a second at most.
    xp : namespace, optional
        Array library that holds the runs; by default NumPy, or CuPy under ``kernels.using("cupy")``. The random numbers
        are the same.

    Returns
    -------
    SimulationResult

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or the learner returns something that is not a policy.
    """
    n_episodes = positive_integer("n_episodes", n_episodes)
    n_runs = positive_integer("n_runs", n_runs)
    run_indices = _run_indices(runs, n_runs)
    xp = kernels.array_library() if xp is None else xp
    at = checkpoint_episodes(n_episodes, checkpoints)
    world = environment.realise(n_episodes, seed)
    _check_memory(world, n_runs, len(at))
    capped = np.minimum(world.delays, n_episodes)
    problem = Problem(
        mdp=world.mdp,
        n_episodes=n_episodes,
        n_runs=n_runs,
        total_delay=int(capped.sum()),
        max_delay=int(capped.max()),
        seed=seed,
        runs=run_indices,
        best_policy=lambda: _best_policy(environment.realise(n_episodes, seed)),
        xp=xp,
    )
    began = time.perf_counter()
    playing = _Simulation(world, resolve(learner)(problem), problem, at)
    last_report = began
    for k in range(n_episodes):
        playing.episode(k)
        if progress is not None and (k % 64 == 63 or k == n_episodes - 1) and time.perf_counter() - last_report > 0.2:
            last_report = time.perf_counter()
            progress(k + 1)
    return playing.result(time.perf_counter() - began)


def checkpoint_episodes(n_episodes: int, checkpoints: int | Sequence[int] | None) -> NDArray[np.int64]:
    """Return after how many episodes to record: increasing, the last is ``n_episodes``.

    Parameters
    ----------
    n_episodes : int
    checkpoints : int, sequence of int or None
        A number of log-spaced checkpoints (100 if None; fewer come out where they would coincide), or the episode
        counts themselves.

    Raises
    ------
    InvalidInputError
        If a count is not an increasing integer in 1 ... n_episodes.
    """
    if checkpoints is None or isinstance(checkpoints, (int, np.integer)):
        number = positive_integer("checkpoints", DEFAULT_CHECKPOINTS if checkpoints is None else checkpoints)
        spaced = np.geomspace(1, n_episodes, number) if number > 1 else np.array([n_episodes])
        return np.unique(np.round(spaced).astype(np.int64))
    given = np.asarray(checkpoints)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InvalidInputError(
            f"checkpoints must be a number of checkpoints or a list of episode counts, got {checkpoints!r}"
        )
    if (np.diff(given) <= 0).any() or given[0] < 1 or given[-1] > n_episodes:
        raise InvalidInputError(
            f"checkpoints must increase within 1 ... {n_episodes} (n_episodes), got {given.tolist()}"
        )
    return np.unique(np.append(given, n_episodes)).astype(np.int64)


def _run_indices(runs: Sequence[int] | None, n_runs: int) -> tuple[int, ...]:
    if runs is None:
        return tuple(range(n_runs))
    if len(runs) != n_runs:
        raise InvalidInputError(f"runs lists {len(runs)} indices, but n_runs is {n_runs}")
    return tuple(positive_integer("a run's index", run, at_least=0) for run in runs)


def _check_memory(world: RealisedEnvironment, n_runs: int, n_checkpoints: int) -> None:
    """Raise if what a simulation keeps cannot fit into this machine's memory.

    These are the policies of the episodes whose feedback is under way and, if the losses are each run's own, their sums
    at the checkpoints.
    """
    episodes = np.arange(world.n_episodes)
    arrives = episodes + np.minimum(world.delays, world.n_episodes)
    waits = arrives < world.n_episodes
    change = np.bincount(episodes[waits], minlength=world.n_episodes + 1)
    change = change - np.bincount(arrives[waits], minlength=world.n_episodes + 1)
    most_pending = int(np.cumsum(change).max())
    H, S, A = world.mdp.shape
    _refuse(
        most_pending * H * S * (A + 3) * n_runs * 8,  # occupancies, and what learners note, beside the policies
        f"up to {most_pending} episodes wait for feedback at once, and the policies of {n_runs} runs for all of them",
    )
    if isinstance(world.losses, Adversary):
        _refuse(
            n_checkpoints * H * S * A * n_runs * 8,
            f"losses that adapt to the policies are each run's own, and the sums of {n_runs} runs at {n_checkpoints} "
            "checkpoints",
        )


def _refuse(needed: int, what: str) -> None:
    """Raise if more bytes are needed than this machine has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else needed
    if needed > memory:
        raise InvalidInputError(
            f"{what} take {needed / 2**30:.1f} GiB; this machine has {memory / 2**30:.1f}. Simulate fewer runs at a "
            "time (n_runs, or runs_per_cell in a config)"
        )


def _best_policy(world: RealisedEnvironment) -> Floats:
    if isinstance(world.losses, Adversary):
        raise InvalidInputError(
            "the best fixed policy is not known in advance, since these losses adapt to the policies played; "
            "leave out learners that ask for it, such as 'optimal'"
        )
    total = np.zeros(world.mdp.shape)
    for k in range(world.n_episodes):
        total += world.losses.mean(k)
    policy, _ = planning.best_in_hindsight(world.mdp.transitions, world.mdp.initial, total)
    return np.asarray(policy)


class _Simulation:
    """The state of a block of runs between episodes."""

    def __init__(
        self, world: RealisedEnvironment, learner: Learner, problem: Problem, checkpoints: NDArray[np.int64]
    ) -> None:
        self.world, self.learner, self.problem, self.checkpoints = world, learner, problem, checkpoints
        mdp, xp = world.mdp, problem.xp
        self.xp = xp
        self.transitions = kernels.prepare(mdp.transitions, xp)
        self.initial = xp.asarray(mdp.initial)
        self.initial_table = xp.asarray(kernels.inverse_cdf_table(mdp.initial))
        self.uniforms = UniformBlocks(problem.seed, Purpose.TRAJECTORY, problem.runs, 2 * mdp.horizon)
        self.noise = (
            UniformBlocks(problem.seed, Purpose.FEEDBACK, problem.runs, mdp.horizon)
            if world.losses.noise == "bernoulli"
            else None
        )
        self.pending: dict[int, list[Feedback]] = defaultdict(list)
        self.lost = 0
        self.adversary = world.losses if isinstance(world.losses, Adversary) else None
        self.total_losses = xp.zeros((*mdp.shape, problem.n_runs)) if self.adversary else np.zeros((*mdp.shape, 1))
        self.expected_loss = xp.zeros(problem.n_runs)
        self.sampled_loss = xp.zeros(problem.n_runs)
        self.trusts_learner = getattr(learner, "returns_new_policies", False)
        self.full_information = getattr(learner, "full_information", False)
        self.recorded: list[tuple[Floats, Floats, Floats]] = []

    def episode(self, k: int) -> None:
        """Play episode ``k``, hand out what arrives at its end and record if it is a checkpoint."""
        policy = self._policy(k)
        occupancy = kernels.state_occupancy(self.transitions, self.initial, policy)
        self._check_mass(k, policy, occupancy)
        mean_losses = self._mean_losses(k, policy)
        self.expected_loss = self.expected_loss + kernels.expected_loss(occupancy, policy, mean_losses)

        states, actions = kernels.sample_trajectories(
            self.transitions.table, self.initial_table, policy, self.xp.asarray(self.uniforms.next())
        )
        losses = kernels.at_trajectory(mean_losses, states, actions)
        if self.noise is not None:
            losses = self.xp.astype(self.xp.asarray(self.noise.next()) < losses, losses.dtype)
        # A cumulative sum adds in order however many runs there are; a sum may not.
        self.sampled_loss = self.sampled_loss + self.xp.cumulative_sum(losses, axis=0)[-1, ...]

        table = mean_losses if self.full_information else None
        notes = notes_of(self.learner, k)
        played = Feedback(k, states, actions, losses, policy, occupancy, notes, table)
        self.learner.learn(k, self._arrivals(k, played))
        if k + 1 == self.checkpoints[len(self.recorded)]:
            self._record(k, policy)

    def _mean_losses(self, k: int, policy: Array) -> Array:
        """Return the mean losses of episode ``k``, (H, S, A, 1), or (H, S, A, R) if they adapt to the policies."""
        if self.adversary is not None:
            means = self.adversary.respond(k, policy)
            self.total_losses += means
            return means
        shared = self.world.losses.mean(k)[..., None]  # type: ignore[union-attr]
        self.total_losses += shared
        return self.xp.asarray(shared)

    def _record(self, k: int, policy: Array) -> None:
        """Keep the cumulative losses; a learner that is trusted with its policies is checked here."""
        planning.check_policy(policy, f"the policy that {self._who()}.act({k}) returned")
        expected = _numpy(self.expected_loss)
        if not np.isfinite(expected).all():
            raise TabpoError(f"the expected loss of {self._who()} is not finite after episode {k}: {expected}")
        self.recorded.append((expected, _numpy(self.sampled_loss), _numpy(self.total_losses)))

    def _policy(self, k: int) -> Array:
        """Return the learner's policy as an array (H, S, A, R) that nobody writes to any more."""
        policy = self.learner.act(k)
        shape = (*self.world.mdp.shape, self.problem.n_runs)
        if getattr(policy, "shape", None) not in (shape, shape[:3]):
            got = getattr(policy, "shape", type(policy).__name__)
            raise InvalidInputError(
                f"{self._who()}.act({k}) must return an array (H, S, A, R) = {shape} or {shape[:3]}, got {got}"
            )
        if self.trusts_learner and policy.ndim == 4:
            return policy
        fresh = self.xp.empty(shape, dtype=self.xp.float64)  # whatever the layout or the type of what was returned
        fresh[...] = policy[..., None] if policy.ndim == 3 else policy
        planning.check_policy(fresh, f"the policy that {self._who()}.act({k}) returned")
        return fresh

    def _check_mass(self, k: int, policy: Array, occupancy: Array) -> None:
        """Raise if the policy is none: probability that leaks or a NaN shows in the mass of the last step's states."""
        mass = self.xp.sum(occupancy[-1, ...], axis=0)
        if not bool(self.xp.all(self.xp.abs(mass - 1.0) <= 1e-9)):
            planning.check_policy(policy, f"the policy that {self._who()}.act({k}) returned")
            raise TabpoError(f"the state occupancy of episode {k} sums to {mass} at the last step, not to 1")

    def _arrivals(self, k: int, played: Feedback) -> Arrivals:
        """File the episode just played and return what arrives now."""
        arrives = k + int(self.world.delays[k])
        if arrives < self.problem.n_episodes:
            self.pending[arrives].append(played)
        else:  # never: the policy and the trajectory need not be kept
            self.lost += 1
        feedback = tuple(self.pending.pop(k, ()))
        seen = (played,) if self.world.trajectories == "immediate" else feedback
        return Arrivals(feedback, tuple(Trajectory(f.episode, f.states, f.actions) for f in seen))

    def _who(self) -> str:
        return type(self.learner).__name__

    def result(self, wall_seconds: float) -> SimulationResult:
        """Compare with the best fixed policies."""
        expected = np.stack([expected for expected, _, _ in self.recorded])
        comparators = _comparators(self.world.mdp, [total for _, _, total in self.recorded])
        own, final = (np.broadcast_to(losses, expected.shape) for losses in comparators)
        settings = {name: _setting(value) for name, value in getattr(self.learner, "settings", {}).items()}
        return SimulationResult(
            episodes=self.checkpoints,
            runs=np.array(self.problem.runs, dtype=np.int64),
            regret=expected - own,
            final_regret=expected - final,
            expected_loss=expected,
            sampled_loss=np.stack([sampled for _, sampled, _ in self.recorded]),
            comparator_loss=own,
            final_comparator_loss=final,
            lost_feedback=self.lost,
            total_delay=self.problem.total_delay,
            max_delay=self.problem.max_delay,
            settings=settings,
            wall_seconds=wall_seconds,
        )


def _comparators(mdp: TabularMDP, totals: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return what the best fixed policies lose by each checkpoint: each checkpoint's own best one, and the last one's.

    ``totals`` are the losses summed until each of C checkpoints, (H, S, A, R), or (H, S, A, 1) if all runs share them.
    """
    transitions = kernels.prepare(mdp.transitions)
    own = []
    for total in totals:
        best, _ = planning.best_response(transitions, total)
        occupancy = kernels.state_occupancy(transitions, mdp.initial, best)
        own.append(kernels.expected_loss(occupancy, best, total))
    final = [kernels.expected_loss(occupancy, best, total) for total in totals]
    return np.stack(own), np.stack(final)


def _numpy(array: Array) -> Floats:
    """Return a copy of an array of any library as a NumPy array."""
    return np.array(array.get() if hasattr(array, "get") else array, dtype=np.float64)


def _setting(value: Any) -> Any:
    """Return a resolved parameter as a plain number, or a list where it differs between runs."""
    if not hasattr(value, "ndim"):
        return value
    values = _numpy(value).ravel()
    return float(values[0]) if (values == values[0]).all() else values.tolist()
