"""The innermost loops of extreme expectations, in LLVM's vector instructions; see :mod:`tabpo.kernels.compiled_boxes`.

LLVM keeps the loops' sums in registers, which it cannot be brought to do from a Numba loop. Each lane is a row (s, a),
or a state, of one run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tabpo.kernels.boxes import LANES
from tabpo.kernels.simd import DOUBLE, INDEX, _address, _repeat

FLOATS, NUMBERS, FLAGS = ir.VectorType(DOUBLE, LANES), ir.VectorType(INDEX, LANES), ir.IntType(LANES)
ZERO = ir.Constant(FLOATS, [0.0] * LANES)


def _constant(n: int) -> Any:
    return ir.Constant(INDEX, n)


def _arrays(target: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return the arguments with the arrays opened, so that their ``data`` can be read."""
    return [
        target.make_array(kind)(target, builder, value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _at(builder: Any, array: Any, row: Any, i: Any, lanes: Any) -> Any:
    """Return the pointer to the vector that begins at entry i of a row; ``row`` is None if the array has one axis."""
    if row is None:
        return builder.bitcast(builder.gep(array.data, [i]), lanes.as_pointer())
    return _address(builder, array, row, i, lanes)


def _load(builder: Any, array: Any, row: Any, i: Any) -> Any:
    return builder.load(_at(builder, array, row, i, FLOATS), align=8)


def _store(builder: Any, vector: Any, array: Any, row: Any, i: Any) -> None:
    builder.store(vector, _at(builder, array, row, i, vector.type), align=8)


def _repeated(builder: Any, array: Any, row: Any, i: Any) -> Any:
    """Return a vector of entry i of a row of an array with two axes."""
    return _repeat(builder, builder.load(_address(builder, array, row, i, DOUBLE)), FLOATS, LANES)


def _starts(builder: Any, i: Any, n: int) -> list[Any]:
    """Return where n vectors from entry i on begin."""
    return [builder.add(i, _constant(t * LANES)) for t in range(n)]


def _least(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", one, other), one, other)


def _multiply_add(builder: Any) -> Any:
    function = ir.FunctionType(FLOATS, [FLOATS] * 3)
    return builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f64", fnty=function)


def _loop(
    builder: Any, first: Any, last: Any, starts: list[Any], body: Callable[..., list[Any]], goes_on: Any = None
) -> list[Any]:
    """Emit ``for j in range(first, last)`` with loop-carried values; ``goes_on(*values)`` false ends it early.

    Returns j, where the loop ended, and the values.
    """
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("loop.head", "loop.body", "loop.after"))
    builder.branch(head)
    builder.position_at_end(head)
    j = builder.phi(INDEX)
    j.add_incoming(first, before)
    values = [builder.phi(start.type) for start in starts]
    for value, start in zip(values, starts, strict=True):
        value.add_incoming(start, before)
    more = builder.icmp_signed("<", j, last)
    builder.cbranch(builder.and_(more, goes_on(*values)) if goes_on else more, inside, after)
    builder.position_at_end(inside)
    new_values = body(j, *values)
    j.add_incoming(builder.add(j, _constant(1)), builder.block)
    for value, new in zip(values, new_values, strict=True):
        value.add_incoming(new, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return [j, *values]


def _hand_out(n: int) -> Any:
    """Return the intrinsic that hands out the mass of the rows of four states and n actions.

    The intrinsic ``hand_out(capacity, first, mass, b, orders, goods, t, guess, count, out, u, lane, i)`` computes, for
    the rows in the lanes from ``lane`` on, with ``left = mass[b]`` (at least 0) and ``worth = 0`` at first::

        for j < count:  x = orders[t, j];  added = min(capacity[first + x], left)
                        left -= added;     worth += added * goods[t, x]

    and adds the worth, summed over the actions, to ``out[u]`` from entry i on. It stops as soon as every row's mass is
    spent, but asks only from j = guess <= count on: a branch that goes the same way most times costs little, one that
    cannot be foreseen as much as several rounds. Returns where it stopped. Arrays are C-contiguous, with two axes.
    """

    @intrinsic
    def hand_out(
        context: Any,
        capacity: Any,
        first: Any,
        mass: Any,
        b: Any,
        orders: Any,
        goods: Any,
        t: Any,
        guess: Any,
        count: Any,
        out: Any,
        u: Any,
        lane: Any,
        i: Any,
    ) -> Any:
        signature = types.int64(capacity, first, mass, b, orders, goods, t, guess, count, out, u, lane, i)

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            capacity, first, mass, b, orders, goods, t, guess, count, out, u, lane, i = _arrays(
                target, builder, signature, arguments
            )
            multiply_add = _multiply_add(builder)
            at = _starts(builder, lane, n)

            def some_left(*values: Any) -> Any:
                bits = reduce(builder.or_, [builder.bitcast(left, NUMBERS) for left in values[:n]])
                flags = builder.icmp_unsigned("!=", bits, ir.Constant(NUMBERS, [0] * LANES))
                return builder.icmp_unsigned("!=", builder.bitcast(flags, FLAGS), ir.Constant(FLAGS, 0))

            def hand(j: Any, *values: Any) -> list[Any]:
                state = builder.load(_address(builder, orders, t, j, INDEX))
                good = _repeated(builder, goods, t, state)
                row = builder.add(first, state)
                added = [
                    _least(builder, left, _load(builder, capacity, row, k))
                    for left, k in zip(values[:n], at, strict=True)
                ]
                left = [builder.fsub(*pair) for pair in zip(values[:n], added, strict=True)]
                worth = zip(added, values[n:], strict=True)
                return left + [builder.call(multiply_add, [share, good, total]) for share, total in worth]

            values = [_load(builder, mass, b, k) for k in at] + [ZERO] * n
            _, *values = _loop(builder, _constant(0), guess, values, hand)
            stopped, *values = _loop(builder, guess, count, values, hand, some_left)
            _store(builder, reduce(builder.fadd, values[n:], _load(builder, out, u, i)), out, u, i)
            return stopped

        return signature, generate

    return hand_out


def _expectation(context: Any, lowest: Any, first: Any, goods: Any, count: Any, out: Any, u: Any) -> Any:
    """Sum the goods of the next states times the least probabilities, for the rows of four states.

    ``expectation(lowest, first, goods, count, out, u)`` writes ``sum_{x < count} goods[0, x] lowest[first + x]`` to
    ``out[u]``.
    """
    signature = types.void(lowest, first, goods, count, out, u)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lowest, first, goods, count, out, u = _arrays(target, builder, signature, arguments)
        multiply_add = _multiply_add(builder)
        zero = _constant(0)

        def add(x: Any, total: Any) -> list[Any]:
            low = _load(builder, lowest, builder.add(first, x), zero)
            return [builder.call(multiply_add, [_repeated(builder, goods, zero, x), low, total])]

        _, total = _loop(builder, zero, count, [ZERO], add)
        _store(builder, total, out, u, zero)
        return target.get_dummy_value()

    return signature, generate


def _count_larger(n: int) -> Any:
    """Return the intrinsic that counts for n vectors of goods how many are larger.

    The intrinsic ``count_larger(goods, t, count, larger, i)`` writes to ``larger[x]``, for x from i on, how many of the
    first ``count`` entries of ``goods[t]`` exceed ``goods[t, x]``.
    """

    @intrinsic
    def count_larger(context: Any, goods: Any, t: Any, count: Any, larger: Any, i: Any) -> Any:
        signature = types.void(goods, t, count, larger, i)

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            goods, t, count, larger, i = _arrays(target, builder, signature, arguments)
            at = _starts(builder, i, n)
            own = [_load(builder, goods, t, k) for k in at]

            def compare(j: Any, *larger: Any) -> list[Any]:
                other = _repeated(builder, goods, t, j)
                is_larger = [builder.sext(builder.fcmp_ordered(">", other, value), NUMBERS) for value in own]
                return [builder.sub(*pair) for pair in zip(larger, is_larger, strict=True)]  # true is -1

            zeros = [ir.Constant(NUMBERS, [0] * LANES)] * n
            _, *result = _loop(builder, _constant(0), count, zeros, compare)
            for counted, k in zip(result, at, strict=True):
                _store(builder, counted, larger, None, k)
            return target.get_dummy_value()

        return signature, generate

    return count_larger


def _place(context: Any, places: Any, count: Any, orders: Any, t: Any) -> Any:
    """``place(places, count, orders, t)`` sets ``orders[t, places[s]] = s`` for s < count; returns the places' sum."""
    signature = types.int64(places, count, orders, t)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places, count, orders, t = _arrays(target, builder, signature, arguments)

        def put(s: Any, total: Any) -> list[Any]:
            at = builder.load(builder.gep(places.data, [s]))
            builder.store(s, _address(builder, orders, t, at, INDEX))
            return [builder.add(total, at)]

        _, total = _loop(builder, _constant(0), count, [_constant(0)], put)
        return total

    return signature, generate


def _shares(
    context: Any,
    capacity: Any,
    row: Any,
    mass: Any,
    together: Any,
    b: Any,
    n_actions: Any,
    certain: Any,
    s: Any,
    goods: Any,
    most: Any,
    least: Any,
    i: Any,
) -> Any:
    """Write the greatest probability of a next state s, and minus the least, from four states.

    ``shares(capacity, row, mass, together, b, n_actions, certain, s, goods, most, least, i)`` writes them to
    ``goods[most]`` and ``goods[least]`` from entry i on. Beside what is certain the state gets, of the mass of each
    row, at most what it can take (``capacity[row]``), at least what is left when all others have had what they can
    take, of ``together = sum_x capacity``.
    """
    signature = types.void(capacity, row, mass, together, b, n_actions, certain, s, goods, most, least, i)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        capacity, row, mass, together, b, n_actions, certain, s, goods, most, least, i = _arrays(
            target, builder, signature, arguments
        )

        def add(a: Any, greatest: Any, smallest: Any) -> list[Any]:
            lane = builder.mul(a, _constant(LANES))
            room, own = _load(builder, capacity, row, lane), _load(builder, mass, b, lane)
            rest = builder.fsub(own, builder.fsub(_load(builder, together, b, lane), room))
            rest = builder.select(builder.fcmp_ordered(">", rest, ZERO), rest, ZERO)
            return [
                builder.fadd(greatest, _least(builder, own, room)),
                builder.fadd(smallest, _least(builder, rest, room)),
            ]

        sure = _load(builder, certain, s, i)
        _, greatest, smallest = _loop(builder, _constant(0), n_actions, [sure, sure], add)
        _store(builder, greatest, goods, most, i)
        _store(builder, builder.fsub(ZERO, smallest), goods, least, i)
        return target.get_dummy_value()

    return signature, generate


def _weigh(
    context: Any,
    capacity: Any,
    first: Any,
    count: Any,
    weights: Any,
    b: Any,
    lane: Any,
    out: Any,
    row: Any,
    together: Any,
) -> Any:
    """Multiply the capacities of four states' rows of one action by the policy, and sum them over the next states.

    ``weigh(capacity, first, count, weights, b, lane, out, row, together)`` writes ``weights[b] capacity[first + x]`` to
    ``out[row + x]`` for x < count, and their sum to ``together[b]``, all from ``lane`` on but ``capacity`` from 0 on.
    """
    signature = types.void(capacity, first, count, weights, b, lane, out, row, together)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        capacity, first, count, weights, b, lane, out, row, together = _arrays(target, builder, signature, arguments)
        weight = _load(builder, weights, b, lane)

        def add(x: Any, total: Any) -> list[Any]:
            room = builder.fmul(weight, _load(builder, capacity, builder.add(first, x), _constant(0)))
            _store(builder, room, out, builder.add(row, x), lane)
            return [builder.fadd(total, room)]

        _, total = _loop(builder, _constant(0), count, [ZERO], add)
        _store(builder, total, together, b, lane)
        return target.get_dummy_value()

    return signature, generate


def _weighed_sum(
    context: Any, lowest: Any, first: Any, count: Any, weights: Any, b: Any, n_actions: Any, out: Any, i: Any
) -> Any:
    """Sum the least probabilities of the next states times the policy, from four states.

    ``weighed_sum(lowest, first, count, weights, b, n_actions, out, i)`` writes the sum over the actions a of
    ``weights[b, a] lowest[first + a count + x]`` to ``out[x]`` from entry i on, for x < count.
    """
    signature = types.void(lowest, first, count, weights, b, n_actions, out, i)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lowest, first, count, weights, b, n_actions, out, i = _arrays(target, builder, signature, arguments)
        multiply_add = _multiply_add(builder)

        def sum_next(x: Any) -> list[Any]:
            def add(a: Any, total: Any) -> list[Any]:
                row = builder.add(builder.add(first, x), builder.mul(a, count))
                weight = _load(builder, weights, b, builder.mul(a, _constant(LANES)))
                return [builder.call(multiply_add, [weight, _load(builder, lowest, row, _constant(0)), total])]

            _, total = _loop(builder, _constant(0), n_actions, [ZERO], add)
            _store(builder, total, out, x, i)
            return []

        _loop(builder, _constant(0), count, [], sum_next)
        return target.get_dummy_value()

    return signature, generate


hand_out_1, hand_out_2, hand_out_3, hand_out_4, hand_out_5 = (_hand_out(n) for n in range(1, 6))
expectation: Any = intrinsic(_expectation)
place: Any = intrinsic(_place)
shares: Any = intrinsic(_shares)
weigh: Any = intrinsic(_weigh)
weighed_sum: Any = intrinsic(_weighed_sum)
count_larger_24, count_larger_8 = _count_larger(24 // LANES), _count_larger(8 // LANES)
