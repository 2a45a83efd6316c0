"""Exact dynamic programming in a known finite-horizon model.

Losses are minimised. Arrays are (H, S, A), with or without a run axis at the end; a result has the run axis if an
argument had it. NumPy, CuPy and other array-API arrays work alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tabpo import kernels
from tabpo.arrays import Array, floating, namespace, with_run_axis
from tabpo.errors import InvalidInputError
from tabpo.kernels import Transitions

__all__ = [
    "best_in_hindsight",
    "best_response",
    "check_policy",
    "evaluate",
    "occupancy",
    "state_occupancy",
    "uniform_policy",
]


def evaluate(transitions: Any, losses: Array, policy: Array) -> tuple[Array, Array]:
    """Return the action values and the state values of a policy.

    ``Q_h(s,a) = losses_h(s,a) + sum_s' p_h(s'|s,a) V_{h+1}(s')``, ``V_h(s) = sum_a policy_h(a|s) Q_h(s,a)``.

    Parameters
    ----------
    transitions : array, (H, S, A, S), or :class:`tabpo.kernels.Transitions`
    losses : array, (H, S, A) or (H, S, A, R)
    policy : array, (H, S, A) or (H, S, A, R)

    Returns
    -------
    q_values : (H, S, A) or (H, S, A, R)
    values : (H + 1, S) or (H + 1, S, R)
        ``values[H]`` is 0.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or the policy is not one.
    """
    losses, policy = floating(losses), floating(policy)
    _check_shapes(transitions, losses=losses, policy=policy)
    check_policy(policy)
    q_values, values = kernels.q_values(transitions, with_run_axis(losses, 4), *_repeated(policy, losses))
    if losses.ndim == policy.ndim == 3:
        return q_values[..., 0], values[..., 0]
    return q_values, values


def _repeated(policy: Array, losses: Array) -> tuple[Array]:
    """Return the policy with a run axis as long as that of the losses, if theirs is the longer."""
    policy = with_run_axis(policy, 4)
    if losses.ndim == 4 and policy.shape[-1] == 1:
        policy = namespace(policy).broadcast_to(policy, (*policy.shape[:-1], losses.shape[-1]))
    return (policy,)


def state_occupancy(transitions: Any, initial: Array, policy: Array) -> Array:
    """Return ``Pr[s_h = s]``, shape (H, S) or (H, S, R); arguments and errors as in :func:`occupancy`."""
    initial, policy = floating(initial), floating(policy)
    _check_shapes(transitions, initial=initial, policy=policy)
    check_policy(policy)
    mu = kernels.state_occupancy(transitions, initial, with_run_axis(policy, 4))
    return mu[..., 0] if policy.ndim == 3 else mu


def occupancy(transitions: Any, initial: Array, policy: Array) -> Array:
    """Return the state-action occupancy ``q_h(s, a) = Pr[s_h = s, a_h = a]`` of a policy.

    Parameters
    ----------
    transitions : array, (H, S, A, S), or :class:`tabpo.kernels.Transitions`
    initial : array, (S,)
    policy : array, (H, S, A) or (H, S, A, R)

    Returns
    -------
    occupancy : the policy's shape; sums to 1 over (s, a) at every step.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or the policy is not one.
    """
    return state_occupancy(transitions, initial, policy)[:, :, None, ...] * floating(policy)


def best_response(transitions: Any, losses: Array) -> tuple[Array, Array]:
    """Return a deterministic policy of least expected loss from every state, and its values.

    Ties go to the lowest action.

    Parameters
    ----------
    transitions : array, (H, S, A, S), or :class:`tabpo.kernels.Transitions`
    losses : array, (H, S, A) or (H, S, A, R)

    Returns
    -------
    policy : the shape of ``losses``, entries 0 and 1
    values : (H + 1, S) or (H + 1, S, R)

    Raises
    ------
    InvalidInputError
        If shapes do not fit.
    """
    losses = floating(losses)
    _check_shapes(transitions, losses=losses)
    xp = namespace(losses)
    by_run = with_run_axis(losses, 4)
    n_steps, n_states, n_actions, n_runs = by_run.shape
    model = transitions if isinstance(transitions, Transitions) else floating(transitions)
    if isinstance(model, np.ndarray) and kernels.backend() != "numpy":
        model = kernels.prepare(model)  # once for all steps
    actions = xp.arange(n_actions, device=getattr(losses, "device", None))[None, :, None]
    values = [xp.zeros((n_states, n_runs), dtype=losses.dtype, device=getattr(losses, "device", None))]
    policy = []
    for h in reversed(range(n_steps)):
        q = by_run[h, ...] + kernels.backup(model, values[-1], h)
        policy.append(xp.astype(actions == xp.argmin(q, axis=1, keepdims=True), losses.dtype))
        values.append(xp.min(q, axis=1))
    best, best_values = xp.stack(policy[::-1]), xp.stack(values[::-1])
    return (best[..., 0], best_values[..., 0]) if losses.ndim == 3 else (best, best_values)


def best_in_hindsight(transitions: Any, initial: Array, total_losses: Array) -> tuple[Array, Any]:
    """Return the best fixed policy for losses summed over episodes, and its total expected loss.

    Values are linear in the losses, so one dynamic programme over the sum gives the comparator of the regret.

    Parameters
    ----------
    transitions : array, (H, S, A, S), or :class:`tabpo.kernels.Transitions`
    initial : array, (S,)
    total_losses : array, (H, S, A) or (H, S, A, R)

    Returns
    -------
    policy : the shape of ``total_losses``, deterministic
    value : float, or (R,)

    Raises
    ------
    InvalidInputError
        If shapes do not fit.
    """
    initial, total_losses = floating(initial), floating(total_losses)
    _check_shapes(transitions, initial=initial, losses=total_losses)
    policy, values = best_response(transitions, total_losses)
    xp = namespace(total_losses)
    if total_losses.ndim == 3:
        return policy, float(xp.sum(initial * values[0, :]))
    return policy, xp.sum(initial[:, None] * values[0, ...], axis=0)


def uniform_policy(n_steps: int, n_states: int, n_actions: int, xp: Any = None) -> Array:
    """Return the policy (H, S, A) that plays every action with probability 1/A."""
    xp = np if xp is None else xp
    return xp.full((n_steps, n_states, n_actions), 1.0 / n_actions, dtype=xp.float64)


def check_policy(policy: Array, name: str = "policy") -> None:
    """Raise if a policy (H, S, A) or (H, S, A, R) is none: a negative entry, a NaN, a state that does not sum to 1.

    Sums may miss 1 by 1e-9: what accumulates in a softmax or a normalisation is far below, a mistake far above.

    Raises
    ------
    InvalidInputError
        Naming the first (h, s[, a][, run]) at fault.
    """
    xp = namespace(policy)
    wrong = ~(policy >= 0)  # true for NaN as well
    if bool(xp.any(wrong)):
        where = _first(wrong)
        raise InvalidInputError(
            f"{name} is {float(policy[where]):.6g} at {_named(where, 'hsar')}; probabilities must be at least 0"
        )
    sums = xp.sum(policy, axis=2)
    wrong = ~(xp.abs(sums - 1.0) <= 1e-9)
    if bool(xp.any(wrong)):
        where = _first(wrong)
        raise InvalidInputError(
            f"{name} sums to {float(sums[where]):.10g} over the actions at {_named(where, 'hsr')}; it must sum to 1"
        )


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(index[0]) for index in namespace(mask).nonzero(mask))


def _named(where: tuple[int, ...], axes: str) -> str:
    names = {"h": "h", "s": "s", "a": "a", "r": "run"}
    named = [names[axis] for axis in axes][: len(where)]
    return f"({', '.join(named)}) = ({', '.join(map(str, where))})"


def _check_shapes(
    transitions: Any, initial: Array | None = None, losses: Array | None = None, policy: Array | None = None
) -> None:
    shape = (transitions.dense if isinstance(transitions, Transitions) else floating(transitions)).shape
    if len(shape) != 4 or shape[1] != shape[3]:
        raise InvalidInputError(f"transitions must have shape (H, S, A, S), got {tuple(shape)}")
    if initial is not None and tuple(initial.shape) != (shape[1],):
        raise InvalidInputError(f"initial must have shape (S,) = ({shape[1]},), got {tuple(initial.shape)}")
    for name, array in (("losses", losses), ("policy", policy)):
        if array is not None and (array.ndim not in (3, 4) or tuple(array.shape[:3]) != tuple(shape[:3])):
            raise InvalidInputError(
                f"{name} must have shape (H, S, A) = {tuple(shape[:3])}, with or without a run axis at the end, "
                f"got {tuple(array.shape)}"
            )
    if losses is not None and policy is not None and losses.ndim == policy.ndim == 4:
        runs = {losses.shape[3], policy.shape[3]}
        if len(runs) > 1 and 1 not in runs:
            raise InvalidInputError(f"losses have {losses.shape[3]} runs and policy has {policy.shape[3]}")
