"""The kernels as formulas, in array-API code: NumPy, CuPy and any other array library that follows the standard.

The run axis is last everywhere: policies (H, S, A, R), state occupancies and state values (H, S, R), trajectories
(H, R). Arguments are trusted; the callers check what comes from users.
"""

from __future__ import annotations

from typing import Any

from tabpo.arrays import Array, namespace

SMALLEST = 2.0**-1022
"""The least normal number, in place of a denominator 0 whose fraction has numerator or weight 0."""


def exponential_weights(log_weights: Array, gradient: Array, step_size: Array) -> tuple[Array, Array]:
    """Return the log-weights after a multiplicative-weights step and the policy they stand for.

    ``w' = w - step_size * gradient``, shifted so that each state's largest is 0; ``policy = softmax_a(w')``.

    Parameters
    ----------
    log_weights, gradient : (H, S, A, R)
        ``log_weights`` may be overwritten.
    step_size : (R,)
    """
    xp = namespace(log_weights)
    log_weights = log_weights - step_size * gradient
    log_weights = log_weights - xp.max(log_weights, axis=2, keepdims=True)
    weights = xp.exp(log_weights)
    return log_weights, weights / xp.sum(weights, axis=2, keepdims=True)


def state_occupancy(transitions: Array, initial: Array, policy: Array) -> Array:
    """Return ``mu[h, s, r] = Pr[s_h = s]`` under run r's policy.

    ``mu_0 = initial``, ``mu_{h+1}(s') = sum_{s,a} mu_h(s) policy_h(a|s) p_h(s'|s,a)``.

    Parameters
    ----------
    transitions : (H, S, A, S)
    initial : (S,)
    policy : (H, S, A, R)
    """
    xp = namespace(policy)
    n_steps, n_states, _, n_runs = policy.shape
    occupancy = [xp.broadcast_to(initial[:, None], (n_states, n_runs))]
    for h in range(n_steps - 1):
        occupancy.append(next_occupancy(transitions, occupancy[h], policy, h))
    return xp.stack(occupancy)


def next_occupancy(transitions: Array, occupancy: Array, policy: Array, h: int) -> Array:
    """Return the state occupancy after step ``h``: ``sum_{s,a} occupancy(s) policy_h(a|s) p_h(s'|s,a)``, (S, R).

    Parameters
    ----------
    transitions : (H, S, A, S)
    occupancy : (S, R)
        At step h.
    policy : (H, S, A, R)
        Read at step h only.
    h : int
    """
    xp = namespace(policy)
    _, n_states, n_actions, n_runs = policy.shape
    pairs = xp.reshape(occupancy[:, None, :] * policy[h, ...], (n_states * n_actions, n_runs))
    step = xp.reshape(transitions[h, ...], (n_states * n_actions, n_states))
    return xp.matmul(xp.permute_dims(step, (1, 0)), pairs)


def backup(transitions: Array, values: Array, h: int) -> Array:
    """Return the expectation of the next state's value, ``sum_s' p_h(s'|s,a) values(s')``, (S, A, R).

    Parameters
    ----------
    transitions : (H, S, A, S)
    values : (S, R)
        Of the states at step h + 1.
    h : int
    """
    xp = namespace(values)
    _, n_states, n_actions, _ = transitions.shape
    step = xp.reshape(transitions[h, ...], (n_states * n_actions, n_states))
    return xp.reshape(xp.matmul(step, values), (n_states, n_actions, values.shape[1]))


def expected_loss(occupancy: Array, policy: Array, losses: Array) -> Array:
    """Return ``sum_{h,s,a} mu_h(s) policy_h(a|s) losses_h(s,a)`` of each run, shape (R,).

    Parameters
    ----------
    occupancy : (H, S, R)
    policy : (H, S, A, R)
    losses : (H, S, A, R or 1)
    """
    xp = namespace(policy)
    return xp.sum(occupancy[:, :, None, :] * policy * losses, axis=(0, 1, 2))


def q_values(transitions: Array, losses: Array, policy: Array, dilation: float = 0.0) -> tuple[Array, Array]:
    """Return the action values and the state values of each run's policy, by backward induction.

    ``Q_h(s,a) = losses_h(s,a) + (1 + dilation) sum_s' p_h(s'|s,a) V_{h+1}(s')``,
    ``V_h = <policy_h, Q_h>``, ``V_H = 0``.

    Parameters
    ----------
    transitions : (H, S, A, S)
    losses : (H, S, A or 1, R or 1)
        Axes of length 1 are repeated.
    policy : (H, S, A, R)
    dilation : float
        0, or 1/H for a dilated bonus.

    Returns
    -------
    q_values : (H, S, A, R)
    values : (H + 1, S, R)
    """
    xp = namespace(policy)
    n_steps, n_states, _, n_runs = policy.shape
    values = [xp.zeros((n_states, n_runs), dtype=policy.dtype, device=getattr(policy, "device", None))]
    q = []
    for h in reversed(range(n_steps)):
        q.append(losses[h, ...] + (1.0 + dilation) * backup(transitions, values[-1], h))
        values.append(xp.sum(policy[h, ...] * q[-1], axis=1))
    return xp.stack(q[::-1]), xp.stack(values[::-1])


def sample_trajectories(table: Array, initial_table: Array, policy: Array, uniforms: Array) -> tuple[Array, Array]:
    """Return each run's states and actions, shape (H, R) each, by inverting distribution functions.

    Parameters
    ----------
    table : (H, S, A, S), or (1, S, A, S) for a stationary model
        Inverse-CDF table of the next state, see :class:`tabpo.kernels.transitions.Transitions`.
    initial_table : (S,)
        That of the first state.
    policy : (H, S, A, R)
    uniforms : (2 H, R)
        Numbers in [0, 1): row 2h draws the state of step h, row 2h + 1 its action.
    """
    xp = namespace(policy)
    n_steps, n_states, n_actions, n_runs = policy.shape
    states, actions = [], []
    tables = xp.broadcast_to(initial_table[:, None], (n_states, n_runs))
    for h in range(n_steps):
        states.append(_invert(tables, uniforms[2 * h, :]))
        at_state = _take(policy[h, ...], states[h])
        actions.append(_invert(_run_table(at_state), uniforms[2 * h + 1, :]))
        rows = xp.reshape(table[min(h, table.shape[0] - 1), ...], (n_states * n_actions, n_states))
        tables = xp.permute_dims(xp.take(rows, states[h] * n_actions + actions[h], axis=0), (1, 0))
    return xp.stack(states), xp.stack(actions)


def _invert(table: Array, uniforms: Array) -> Array:
    """Return the first index along axis 0 whose entry exceeds the uniform number, shape (R,)."""
    xp = namespace(table)
    return xp.sum(xp.astype(table <= uniforms, xp.int64), axis=0)


def _run_table(probabilities: Array) -> Array:
    """Return the inverse-CDF table along axis 0 of one distribution per run, shape (A, R)."""
    xp = namespace(probabilities)
    count = xp.cumulative_sum(xp.astype(probabilities > 0, xp.int64), axis=0)
    positive_later = count < count[-1:, ...]
    return xp.where(positive_later, xp.cumulative_sum(probabilities, axis=0), 1.0)


def _take(array: Array, states: Array) -> Array:
    """Return ``array[states[r], ..., r]`` for an array (S, A, R) and states (R,): shape (A, R)."""
    xp = namespace(array)
    index = xp.broadcast_to(states[None, None, :], (1, array.shape[1], states.shape[0]))
    return xp.take_along_axis(array, index, axis=0)[0, ...]


def at_trajectory(array: Array, states: Array, actions: Array) -> Array:
    """Return ``array[h, states[h, r], actions[h, r], r]``, shape (H, R).

    Parameters
    ----------
    array : (H, S, A or 1, R or 1)
        Axes of length 1 are repeated.
    states, actions : (H, R)
    """
    xp = namespace(array)
    n_steps, n_states, n_actions, _ = array.shape
    flat = xp.reshape(
        xp.broadcast_to(array, (n_steps, n_states, n_actions, states.shape[1])),
        (n_steps, n_states * n_actions, states.shape[1]),
    )
    index = states * n_actions + (actions if n_actions > 1 else 0)
    return xp.take_along_axis(flat, index[:, None, :], axis=1)[:, 0, :]


def add_at_trajectory(array: Array, states: Array, actions: Array, values: Array) -> Array:
    """Return ``array`` with ``values[h, r]`` added at (h, states[h, r], actions[h, r], r).

    ``array`` may be overwritten.

    Parameters
    ----------
    array : (H, S, A, R)
    states, actions, values : (H, R)
    """
    xp = namespace(array)
    n_states, n_actions = array.shape[1:3]
    device = getattr(array, "device", None)
    at_state = states[:, None, None, :] == xp.arange(n_states, device=device)[None, :, None, None]
    at_action = actions[:, None, None, :] == xp.arange(n_actions, device=device)[None, None, :, None]
    return array + xp.where(at_state & at_action, values[:, None, None, :], xp.zeros_like(array))


def importance_weighted(
    observed: Array,
    acting_policy: Array,
    arrival_policy: Array,
    occupancy: Array,
    states: Array,
    actions: Array,
    exploration: Array,
    adapt: bool,
) -> Array:
    """Return ``r observed_h / (mu_h(s_h) acting_h(a_h|s_h) + exploration)`` at the trajectory, shape (H, R).

    ``r`` is the delay-adapted ratio there, ``acting / max(acting, arrival)``, or 1 if ``adapt`` is false.

    Parameters
    ----------
    observed : (H, R)
    acting_policy, arrival_policy : (H, S, A, R)
    occupancy : (H, S, R)
        State occupancy mu of the acting policy, or an upper bound of it.
    states, actions : (H, R)
    exploration : (R,)
    adapt : bool
    """
    xp = namespace(observed)
    probability = at_trajectory(acting_policy, states, actions)
    reach = at_trajectory(occupancy[:, :, None, :], states, actions)
    weighted = observed / (reach * probability + exploration)
    if not adapt:
        return weighted
    largest = xp.maximum(probability, at_trajectory(arrival_policy, states, actions))
    return weighted * xp.where(largest > 0, probability / xp.where(largest > 0, largest, 1.0), 1.0)


def exploration_bonus(
    acting_policy: Array,
    arrival_policy: Array,
    occupancy: Array,
    exploration: Array,
    weight: Array,
    adapt: bool,
    lower: Array | None = None,
    width_weight: Array | None = None,
) -> Array:
    """Return the exploration bonus of each step and state, shape (H, S, R).

    ``b_h(s) = sum_a arrival_h(a|s) r_h(s,a) w_h(s,a) / (mu_h(s) acting_h(a|s) + exploration)`` with ``w = weight``, or
    ``w_h(s,a) = weight + width_weight acting_h(a|s) (mu_h(s) - lower_h(s))`` where a lower bound is given.

    ``r`` is the delay-adapted ratio, or 1 if ``adapt`` is false. Without exploration 0 / 0 counts as 0.

    Parameters
    ----------
    acting_policy, arrival_policy : (H, S, A, R)
    occupancy : (H, S, R)
        State occupancy mu of the acting policy, or an upper bound of it.
    exploration, weight : (R,)
    adapt : bool
    lower : (H, S, R), optional
        A lower bound of the occupancy.
    width_weight : (R,), optional
        Given with ``lower``.
    """
    xp = namespace(acting_policy)
    # arrival * acting / max(acting, arrival) = min(acting, arrival): no division, and no 0/0 where both vanish.
    top = xp.minimum(acting_policy, arrival_policy) if adapt else arrival_policy
    below = occupancy[:, :, None, :] * acting_policy + exploration
    share = top / xp.where(below > SMALLEST, below, SMALLEST)
    bonus = weight * xp.sum(share, axis=2)
    if lower is None:
        return bonus
    return bonus + width_weight * (occupancy - lower) * xp.sum(share * acting_policy, axis=2)


def product(matrix: Any, vectors: Array) -> Array:
    """Return the matrix product of a shared matrix (n, m) and one vector per run (m, R)."""
    return namespace(vectors).matmul(matrix, vectors)
