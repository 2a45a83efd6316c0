"""What the bandit learners share: one step, one state, A arms."""

from __future__ import annotations

from tabpo import kernels
from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Feedback, Problem


def zeros_per_arm(problem: Problem, learner: str) -> Array:
    """Return zeros (1, 1, A, R), a number for each arm and run.

    Parameters
    ----------
    problem : Problem
    learner : str
        Who asks, for the error.

    Raises
    ------
    InvalidInputError
        If the problem has more than one step or state.
    """
    H, S, A = problem.mdp.shape
    if (H, S) != (1, 1):
        raise InvalidInputError(
            f"{learner} is for bandits, H = S = 1, and this MDP has H = {H} and S = {S}; "
            "use a learner for MDPs (dapo, say), or an MDP of one step and one state"
        )
    return problem.xp.zeros((1, 1, A, problem.n_runs))


def of_played(array: Array, j: Feedback) -> Array:
    """Return the entries of an array (1, 1, A, R) at the arms played in episode j, shape (1, R)."""
    played: Array = kernels.at_trajectory(array, j.states, j.actions)
    return played


def add_to_played(array: Array, j: Feedback, values: Array) -> Array:
    """Return an array (1, 1, A, R), which may be overwritten, with values (1, R) added at the arms played."""
    added: Array = kernels.add_at_trajectory(array, j.states, j.actions, values)
    return added
