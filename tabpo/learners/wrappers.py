"""Two devices that go around any learner: skipping long delays, and doubling for unknown K and D."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Learner, Problem, Trajectory, notes_of

MakeLearner = Callable[[Problem], Learner]


class Skipping:
    """Ignores feedback that was longer under way than a threshold beta.

    At most D / beta episodes are skipped, at a regret of at most H D / beta; the largest delay then drops out of the
    conditions on the step size (section 2.4 of the DAPO specification).

    Parameters
    ----------
    problem : Problem
    make : callable
        Returns the learner inside.
    threshold : int, at least 0, optional
        beta; the square root of the total delay, rounded up, if None.
    """

    def __init__(self, problem: Problem, make: MakeLearner, threshold: int | None = None) -> None:
        if threshold is not None and threshold < 0:
            raise InvalidInputError(f"the skipping threshold must be at least 0 episodes, got {threshold}")
        self.threshold = math.isqrt(max(problem.total_delay - 1, 0)) + 1 if threshold is None else threshold
        inside_delay = min(problem.max_delay, self.threshold)
        self.inside = make(replace(problem, max_delay=inside_delay))
        self.skipped = 0
        self.returns_new_policies = getattr(self.inside, "returns_new_policies", False)
        self.full_information = getattr(self.inside, "full_information", False)

    def act(self, k: int) -> Array:
        """Return the policy of the learner inside."""
        return self.inside.act(k)

    def notes(self, k: int) -> Any:
        """Return those of the learner inside."""
        return notes_of(self.inside, k)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Pass on what arrived in time."""
        in_time = tuple(j for j in arrivals if k - j.episode <= self.threshold)
        self.skipped += len(arrivals) - len(in_time)
        self.inside.learn(k, Arrivals(in_time, arrivals.trajectories))

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the learner inside, the threshold, and how many arrivals were skipped."""
        inside = getattr(self.inside, "settings", {})
        return {**inside, "skipping_threshold": self.threshold, "skipped": self.skipped}


class Doubling:
    """Restarts the learner with doubled guesses of K and D, for when neither is known in advance.

    After each episode the guess of K is held against the number of episodes played, and the guess of D against the sum
    over episodes of the number of episodes whose feedback is pending, which never exceeds D (section 2.4 of the DAPO
    specification). When a guess is exceeded it is doubled until it is not, and the learner starts afresh with both
    guesses; feedback of episodes before the restart is dropped.

    Parameters
    ----------
    problem : Problem
        Its K and D are not read.
    make : callable
        Returns the learner inside.
    """

    def __init__(self, problem: Problem, make: MakeLearner) -> None:
        self.problem, self.make = problem, make
        self.guessed_episodes, self.guessed_delay = 1, 1
        self.pending, self.waited, self.restarts = 0, 0, -1
        self._start(0)
        self.returns_new_policies = getattr(self.inside, "returns_new_policies", False)
        self.full_information = getattr(self.inside, "full_information", False)

    def _start(self, k: int) -> None:
        self.first = k
        self.restarts += 1
        guess = replace(
            self.problem,
            n_episodes=self.guessed_episodes,
            total_delay=self.guessed_delay,
            max_delay=self.guessed_delay,
            restart=self.restarts,
        )
        self.inside = self.make(guess)

    def act(self, k: int) -> Array:
        """Return the policy of the learner inside."""
        return self.inside.act(k - self.first)

    def notes(self, k: int) -> Any:
        """Return those of the learner inside."""
        return notes_of(self.inside, k - self.first)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Pass on the feedback of episodes played since the restart; then check the guesses."""
        recent = tuple(replace(j, episode=j.episode - self.first) for j in arrivals if j.episode >= self.first)
        seen = tuple(
            Trajectory(t.episode - self.first, t.states, t.actions)
            for t in arrivals.trajectories
            if t.episode >= self.first
        )
        self.inside.learn(k - self.first, Arrivals(recent, seen))
        self.pending += 1 - len(arrivals)
        self.waited += self.pending
        guesses = self.guessed_episodes, self.guessed_delay
        while k + 1 >= self.guessed_episodes:
            self.guessed_episodes *= 2
        while self.waited > self.guessed_delay:
            self.guessed_delay *= 2
        if guesses != (self.guessed_episodes, self.guessed_delay):
            self._start(k + 1)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the learner inside now, and the guesses."""
        inside = getattr(self.inside, "settings", {})
        guesses = {"guessed_episodes": self.guessed_episodes, "guessed_delay": self.guessed_delay}
        return {**inside, **guesses, "restarts": self.restarts}
