"""The innermost loops of extreme expectations, in LLVM's vector instructions; see :mod:`tabpo.kernels.compiled_boxes`.

LLVM keeps the loops' sums in registers, which it cannot be brought to do from a Numba loop. Each lane is a row (s, a),
or a state, of one run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tabpo.kernels.simd import DOUBLE, INDEX, _address, _repeat

EIGHT = ir.VectorType(DOUBLE, 8)


def _arrays(target: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return the arguments with the arrays opened, so that their ``data`` can be read."""
    return [
        target.make_array(kind)(target, builder, value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _entries(builder: Any, array: Any, i: Any, lanes: Any) -> Any:
    """Return the pointer to entry i of an array with one axis as one to a vector."""
    return builder.bitcast(builder.gep(array.data, [i]), lanes.as_pointer())


def _loop(
    builder: Any, count: Any, starts: list[Any], body: Callable[..., list[Any]], goes_on: Any = None
) -> list[Any]:
    """Emit ``for j in range(count)`` with loop-carried values; ``goes_on(*values)`` false ends it early."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("loop.head", "loop.body", "loop.after"))
    builder.branch(head)
    builder.position_at_end(head)
    j = builder.phi(INDEX)
    j.add_incoming(ir.Constant(INDEX, 0), before)
    values = [builder.phi(start.type) for start in starts]
    for value, start in zip(values, starts, strict=True):
        value.add_incoming(start, before)
    more = builder.icmp_signed("<", j, count)
    builder.cbranch(builder.and_(more, goes_on(*values)) if goes_on else more, inside, after)
    builder.position_at_end(inside)
    new_values = body(j, *values)
    j.add_incoming(builder.add(j, ir.Constant(INDEX, 1)), builder.block)
    for value, new in zip(values, new_values, strict=True):
        value.add_incoming(new, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def _multiply_add(builder: Any, lanes: Any) -> Any:
    function = ir.FunctionType(lanes, [lanes] * 3)
    return builder.module.declare_intrinsic(f"llvm.fma.v{lanes.count}f64", fnty=function)


def _hand_out(width: int) -> Any:
    """Return the intrinsic that hands out the mass of ``width`` rows.

    The intrinsic ``hand_out(capacity, mass, order, goods, count, total, i)`` computes, for i <= t < i + width::

        for j < count:  added = min(capacity[order[j], t], left);  left -= added;  total[t] += added * goods[order[j]]

    with ``left = mass[t]`` (at least 0) at first, and stops as soon as every row's mass is spent. Arrays are
    C-contiguous; ``capacity`` has two axes, the others one.
    """
    lanes = ir.VectorType(DOUBLE, width)
    bits = ir.VectorType(INDEX, width)

    @intrinsic
    def hand_out(context: Any, capacity: Any, mass: Any, order: Any, goods: Any, count: Any, total: Any, i: Any) -> Any:
        signature = types.void(capacity, mass, order, goods, count, total, i)

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            capacity, mass, order, goods, count, total, i = _arrays(target, builder, signature, arguments)
            multiply_add = _multiply_add(builder, lanes)
            any_bit = builder.module.declare_intrinsic(
                f"llvm.vector.reduce.or.v{width}i64", fnty=ir.FunctionType(INDEX, [bits])
            )

            def some_left(left: Any, worth: Any) -> Any:
                return builder.icmp_unsigned(
                    "!=", builder.call(any_bit, [builder.bitcast(left, bits)]), ir.Constant(INDEX, 0)
                )

            def hand(j: Any, left: Any, worth: Any) -> list[Any]:
                state = builder.load(builder.gep(order.data, [j]))
                good = _repeat(builder, builder.load(builder.gep(goods.data, [state])), lanes, width)
                room = builder.load(_address(builder, capacity, state, i, lanes), align=8)
                added = builder.select(builder.fcmp_ordered("<", room, left), room, left)
                return [builder.fsub(left, added), builder.call(multiply_add, [added, good, worth])]

            at_total = _entries(builder, total, i, lanes)
            starts = [builder.load(_entries(builder, mass, i, lanes), align=8), builder.load(at_total, align=8)]
            _, worth = _loop(builder, count, starts, hand, some_left)
            builder.store(worth, at_total, align=8)
            return target.get_dummy_value()

        return signature, generate

    return hand_out


hand_out_16, hand_out_8 = _hand_out(16), _hand_out(8)


def _count_larger(context: Any, values: Any, count: Any, larger: Any, i: Any) -> Any:
    """``count_larger_8(values, count, larger, i)``: how many of ``count`` values exceed value t, for i <= t < i + 8."""
    signature = types.void(values, count, larger, i)
    numbers = ir.VectorType(INDEX, 8)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, count, larger, i = _arrays(target, builder, signature, arguments)
        own = builder.load(_entries(builder, values, i, EIGHT), align=8)

        def compare(j: Any, larger: Any) -> list[Any]:
            other = _repeat(builder, builder.load(builder.gep(values.data, [j])), EIGHT, 8)
            return [builder.sub(larger, builder.sext(builder.fcmp_ordered(">", other, own), numbers))]

        (result,) = _loop(builder, count, [ir.Constant(numbers, [0] * 8)], compare)
        builder.store(result, _entries(builder, larger, i, numbers), align=8)
        return target.get_dummy_value()

    return signature, generate


def _weighted_sum(context: Any, weights: Any, terms: Any, stride: Any, count: Any, out: Any, i: Any) -> Any:
    """``weighted_sum_8(weights, terms, stride, count, out, i)``: a policy's mean over the actions in 8 states.

    ``out[t] = sum_{j < count} weights[j stride + t] terms[j stride + t]`` for i <= t < i + 8; all arrays have one axis.
    """
    signature = types.void(weights, terms, stride, count, out, i)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, terms, stride, count, out, i = _arrays(target, builder, signature, arguments)
        multiply_add = _multiply_add(builder, EIGHT)

        def add(j: Any, total: Any) -> list[Any]:
            at = builder.add(builder.mul(j, stride), i)
            factors = [builder.load(_entries(builder, array, at, EIGHT), align=8) for array in (weights, terms)]
            return [builder.call(multiply_add, [*factors, total])]

        (result,) = _loop(builder, count, [ir.Constant(EIGHT, [0.0] * 8)], add)
        builder.store(result, _entries(builder, out, i, EIGHT), align=8)
        return target.get_dummy_value()

    return signature, generate


count_larger_8: Any = intrinsic(_count_larger)
weighted_sum_8: Any = intrinsic(_weighted_sum)
