"""The innermost loop of a matrix product, in LLVM's vector instructions: a tile of rows times a tile of runs.

LLVM keeps the tile's sums in registers, which it cannot be brought to do from a Numba loop (a factor of two to ten,
the more the fewer runs). Each sum is one chain of fused multiply-adds in the order of the columns, whatever the tile it
falls in: that is what makes a run's numbers independent of the runs beside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

INDEX = ir.IntType(64)
DOUBLE = ir.DoubleType()


def _tile(rows: int, width: int, indexed: bool) -> Any:
    """Return the intrinsic for ``rows`` rows and ``width`` runs.

    The intrinsic ``tile(coefficients, first, stride, count, columns, vectors, v, out, i, r)`` computes, for t < rows::

        out[i + t, r : r + width] = sum_{j < count} coefficients[first + t * stride + j] * vectors[c_j, v : v + width]

    with ``c_j = columns[first + j]`` if ``indexed``, else j. Arrays are C-contiguous; ``coefficients`` and ``columns``
    have one axis, ``vectors`` and ``out`` two.
    """

    @intrinsic
    def tile(
        context: Any,
        coefficients: Any,
        first: Any,
        stride: Any,
        count: Any,
        columns: Any,
        vectors: Any,
        v: Any,
        out: Any,
        i: Any,
        r: Any,
    ) -> Any:
        signature = types.void(coefficients, first, stride, count, columns, vectors, v, out, i, r)

        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = dict(
                zip(
                    ("coefficients", "first", "stride", "count", "columns", "vectors", "v", "out", "i", "r"),
                    arguments,
                    strict=True,
                )
            )
            for position, name in ((0, "coefficients"), (4, "columns"), (5, "vectors"), (7, "out")):
                parts[name] = target.make_array(signature.args[position])(target, builder, parts[name])
            _generate(builder, parts, rows, width, indexed)
            return target.get_dummy_value()

        return signature, generate

    return tile


def _generate(builder: Any, parts: dict[str, Any], rows: int, width: int, indexed: bool) -> None:
    """Emit the loop over the columns with the tile's sums as its loop-carried values."""
    lanes = ir.VectorType(DOUBLE, width) if width > 1 else DOUBLE
    name = f"llvm.fma.v{width}f64" if width > 1 else "llvm.fma.f64"
    insert: Any = cgutils.get_or_insert_function
    multiply_add = insert(builder.module, ir.FunctionType(lanes, [lanes] * 3), name)
    zero = ir.Constant(lanes, [0.0] * width if width > 1 else 0.0)

    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("tile.head", "tile.body", "tile.after"))
    builder.branch(head)
    builder.position_at_end(head)
    j = builder.phi(INDEX)
    j.add_incoming(ir.Constant(INDEX, 0), before)
    sums = [builder.phi(lanes) for _ in range(rows)]
    for total in sums:
        total.add_incoming(zero, before)
    builder.cbranch(builder.icmp_signed("<", j, parts["count"]), body, after)

    builder.position_at_end(body)
    entry = builder.add(parts["first"], j)
    column = builder.load(builder.gep(parts["columns"].data, [entry])) if indexed else j
    vector = builder.load(_address(builder, parts["vectors"], column, parts["v"], lanes), align=8)
    added = []
    for t, total in enumerate(sums):
        at = builder.add(entry, builder.mul(ir.Constant(INDEX, t), parts["stride"]))
        coefficient = builder.load(builder.gep(parts["coefficients"].data, [at]))
        added.append(builder.call(multiply_add, [_repeat(builder, coefficient, lanes, width), vector, total]))
    j.add_incoming(builder.add(j, ir.Constant(INDEX, 1)), builder.block)
    for total, value in zip(sums, added, strict=True):
        total.add_incoming(value, builder.block)
    builder.branch(head)

    builder.position_at_end(after)
    for t, total in enumerate(sums):
        row = builder.add(parts["i"], ir.Constant(INDEX, t))
        builder.store(total, _address(builder, parts["out"], row, parts["r"], lanes), align=8)


def _address(builder: Any, array: Any, row: Any, run: Any, lanes: Any) -> Any:
    """Return the pointer to ``array[row, run]`` as one to a vector of runs."""
    start = builder.ptrtoint(array.data, INDEX)
    down = builder.mul(row, builder.extract_value(array.strides, 0))
    across = builder.mul(run, ir.Constant(INDEX, 8))
    return builder.inttoptr(builder.add(builder.add(start, down), across), lanes.as_pointer())


def _repeat(builder: Any, scalar: Any, lanes: Any, width: int) -> Any:
    """Return the scalar in every lane."""
    if width == 1:
        return scalar
    nothing = ir.Constant(lanes, ir.Undefined)
    first = builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


# Four rows by eight runs fill eight 256-bit registers with sums, enough chains to hide a multiply-add's latency; a
# single sparse row needs 32 runs for that. The narrower tiles are for what is left over.
dense_4x8, dense_4x1 = _tile(4, 8, False), _tile(4, 1, False)
dense_1x8, dense_1x1 = _tile(1, 8, False), _tile(1, 1, False)
sparse_1x32, sparse_1x8, sparse_1x1 = _tile(1, 32, True), _tile(1, 8, True), _tile(1, 1, True)
