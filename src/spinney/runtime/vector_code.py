"""SIMD operations as LLVM code.

Numba's loops cannot say these, but LLVM can: a comparison of two vectors is a vector of
bits, and that is an integer; a vector is loaded and stored whole, so no test is needed
whether two arrays overlap. What each does, and on which arguments, is said in `simd`.
"""

from __future__ import annotations

from typing import Any

from spinney.runtime.bit_vectors import HAS_BITS, bits_to_word, word_to_bytes
from spinney.runtime.compiler import get_or_insert_function, intrinsic, ir, types
from spinney.runtime.plain_vectors import EIGHT, STRIDE, WORD

_function: Any = get_or_insert_function  # Numba does not tell its types


def _zero() -> Any:
    """Return the first index of a vector."""
    return ir.Constant(ir.IntType(32), 0)


def _pointer_to(
    context: Any, builder: Any, array_type: Any, array: Any, start: Any, vector: Any
) -> Any:
    """Return where the element `start` of an array lies, as a pointer to a vector."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


# ------------------------------------------------------------------ comparing


def comparison(missing_exceeds: bool, has_bits: bool = HAS_BITS) -> Any:
    """Return an intrinsic ``(values, start, threshold) -> word``."""

    def typer(_context: Any, values: Any, start: Any, threshold: Any) -> Any:
        signature = types.uint64(values, types.uint64, values.dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array_type = signature.args[0]
            number = context.get_value_type(array_type.dtype)
            vector = ir.VectorType(number, WORD)
            where = _pointer_to(context, builder, array_type, args[0], args[1], vector)
            many = builder.load(where, align=array_type.dtype.bitwidth // 8)
            nothing = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(nothing, args[2], _zero())
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
            same = builder.shuffle_vector(one, one, everywhere)
            # Unordered: true if one of the two is NaN.
            compare = (
                builder.fcmp_unordered if missing_exceeds else builder.fcmp_ordered
            )
            return bits_to_word(builder, compare(">", many, same), has_bits)

        return signature, generate

    return intrinsic(typer)


# ------------------------------------------------------------------ splitting


def _vectors(signature: Any, args: Any, context: Any, builder: Any) -> Any:
    """Return a function that finds `STRIDE` words from an array and a start."""
    vector = ir.VectorType(ir.IntType(WORD), STRIDE)

    def at(array: int, start: int) -> Any:
        kind = signature.args[array]
        return _pointer_to(context, builder, kind, args[array], args[start], vector)

    return at


@intrinsic
def mark(
    _context: Any,
    sets: Any,
    slot: Any,
    planes: Any,
    plane: Any,
    outcomes: Any,
    outcome: Any,
) -> Any:
    index = types.uint64
    signature = types.void(sets, index, planes, index, outcomes, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _vectors(signature, args, context, builder)
        at_set, at_plane, at_outcome = at(0, 1), at(2, 3), at(4, 5)
        here = builder.load(at_set, align=8)
        moved = builder.and_(here, builder.load(at_outcome, align=8))
        flipped = builder.xor(builder.load(at_plane, align=8), moved)
        builder.store(flipped, at_plane, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def finish(
    _context: Any,
    sets: Any,
    slot: Any,
    planes: Any,
    plane: Any,
    plane_below: Any,
    outcomes: Any,
    outcome: Any,
    outcome_left: Any,
    outcome_right: Any,
) -> Any:
    index = types.uint64
    signature = types.void(
        sets, index, planes, index, index, outcomes, index, index, index
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _vectors(signature, args, context, builder)
        at_plane, at_below = at(2, 3), at(2, 4)
        here = builder.load(at(0, 1), align=8)
        moved = builder.and_(here, builder.load(at(5, 6), align=8))
        left = builder.load(at(5, 7), align=8)
        right = builder.load(at(5, 8), align=8)
        stayed = builder.and_(builder.xor(here, moved), left)
        below = builder.or_(stayed, builder.and_(moved, right))
        flipped = builder.xor(builder.load(at_plane, align=8), moved)
        flipped_below = builder.xor(builder.load(at_below, align=8), below)
        builder.store(flipped, at_plane, align=8)
        builder.store(flipped_below, at_below, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def keep(
    _context: Any,
    sets: Any,
    slot: Any,
    planes: Any,
    plane: Any,
    outcomes: Any,
    outcome: Any,
    without: Any,
) -> Any:
    index = types.uint64
    signature = types.void(sets, index, planes, index, outcomes, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _vectors(signature, args, context, builder)
        at_set, at_plane, at_outcome = at(0, 1), at(2, 3), at(4, 5)
        vector = ir.VectorType(ir.IntType(WORD), STRIDE)
        one = builder.insert_element(
            ir.Constant(vector, ir.Undefined), args[6], _zero()
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), STRIDE), [0] * STRIDE)
        without = builder.shuffle_vector(one, one, everywhere)
        here = builder.load(at_set, align=8)
        moved = builder.and_(here, builder.load(at_outcome, align=8))
        flipped = builder.xor(builder.load(at_plane, align=8), moved)
        builder.store(flipped, at_plane, align=8)
        kept = builder.xor(builder.and_(here, without), moved)
        builder.store(kept, at_set, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def split(
    _context: Any,
    sets: Any,
    old: Any,
    new: Any,
    planes: Any,
    plane: Any,
    outcomes: Any,
    outcome: Any,
) -> Any:
    index = types.uint64
    signature = types.void(sets, index, index, planes, index, outcomes, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _vectors(signature, args, context, builder)
        at_old, at_new, at_plane, at_outcome = at(0, 1), at(0, 2), at(3, 4), at(5, 6)
        here = builder.load(at_old, align=8)
        moved = builder.and_(here, builder.load(at_outcome, align=8))
        flipped = builder.xor(builder.load(at_plane, align=8), moved)
        builder.store(flipped, at_plane, align=8)
        builder.store(moved, at_new, align=8)
        builder.store(builder.xor(here, moved), at_old, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy(_context: Any, words: Any, source: Any, target: Any) -> Any:
    index = types.uint64
    signature = types.void(words, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _vectors(signature, args, context, builder)
        builder.store(builder.load(at(0, 1), align=8), at(0, 2), align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def unite(
    _context: Any,
    planes: Any,
    word: Any,
    apart: Any,
    chosen: Any,
    outcomes: Any,
    outcome: Any,
    flips: Any,
) -> Any:
    index = types.uint64
    signature = types.void(planes, index, index, index, outcomes, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        integer = ir.IntType(WORD)
        vector = ir.VectorType(integer, STRIDE)
        at_outcome = _vectors(signature, args, context, builder)(4, 5)
        one = builder.insert_element(
            ir.Constant(vector, ir.Undefined), args[6], _zero()
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), STRIDE), [0] * STRIDE)
        before = builder.shuffle_vector(one, one, everywhere)
        kind = ir.FunctionType(integer, [integer, ir.IntType(1)])
        lowest = _function(builder.module, kind, "llvm.cttz.i64")
        nothing = ir.Constant(integer, 0)
        entry = builder.block
        loop = builder.append_basic_block("unite")
        body = builder.append_basic_block("unite.plane")
        end = builder.append_basic_block("unite.end")
        builder.branch(loop)
        builder.position_at_end(loop)
        left, united = builder.phi(integer), builder.phi(vector)
        left.add_incoming(args[3], entry)
        united.add_incoming(ir.Constant(vector, [0] * STRIDE), entry)
        builder.cbranch(builder.icmp_unsigned("!=", left, nothing), body, end)
        builder.position_at_end(body)
        number = builder.call(lowest, [left, ir.Constant(ir.IntType(1), 1)])
        start = builder.add(args[1], builder.mul(number, args[2]))
        plane = _pointer_to(context, builder, signature.args[0], args[0], start, vector)
        more = builder.or_(united, builder.load(plane, align=8))
        rest = builder.and_(left, builder.sub(left, ir.Constant(integer, 1)))
        left.add_incoming(rest, body)
        united.add_incoming(more, body)
        builder.branch(loop)
        builder.position_at_end(end)
        builder.store(builder.xor(united, before), at_outcome, align=8)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def count_ones(_context: Any, word: Any) -> Any:
    signature = types.uint64(types.uint64)

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        integer = ir.IntType(WORD)
        kind = ir.FunctionType(integer, [integer])
        count = _function(builder.module, kind, "llvm.ctpop.i64")
        return builder.call(count, [args[0]])

    return signature, generate


@intrinsic
def add_four_pairs(
    _context: Any,
    sums: Any,
    start: Any,
    entries: Any,
    first: Any,
    second: Any,
    third: Any,
    fourth: Any,
) -> Any:
    index = types.uint64
    signature = types.void(sums, index, entries, index, index, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = signature.args[0].dtype
        vector = ir.VectorType(context.get_value_type(number), 2)
        align = number.bitwidth // 8

        def at(array: int, start: int) -> Any:
            kind = signature.args[array]
            return _pointer_to(context, builder, kind, args[array], args[start], vector)

        at_sums = at(0, 1)
        total = builder.load(at_sums, align=align)
        for k in range(3, 7):
            total = builder.fadd(total, builder.load(at(2, k), align=align))
        builder.store(total, at_sums, align=align)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fetch(_context: Any, words: Any, start: Any) -> Any:
    signature = types.void(words, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        where = _pointer_to(
            context, builder, signature.args[0], args[0], args[1], ir.IntType(8)
        )
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = _function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [where, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


# ------------------------------------------------------------------ turning


@intrinsic
def turn_eight(
    _context: Any,
    rows: Any,
    begins: Any,
    column: Any,
    values: Any,
    targets: Any,
    first: Any,
    shift: Any,
) -> Any:
    index = types.uint64
    signature = types.void(rows, begins, index, values, targets, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = signature.args[0].dtype
        vector = ir.VectorType(context.get_value_type(number), EIGHT)
        align = number.bitwidth // 8

        def entry(array: int, at: Any) -> Any:
            kind = signature.args[array]
            where = _pointer_to(
                context, builder, kind, args[array], at, ir.IntType(WORD)
            )
            return builder.load(where, align=8)

        def numbered(start: Any, k: int) -> Any:
            return builder.add(start, ir.Constant(ir.IntType(WORD), k))

        zero = ir.Constant(ir.IntType(WORD), 0)
        lines = []
        for k in range(EIGHT):
            start = builder.add(entry(1, numbered(zero, k)), args[2])
            where = _pointer_to(
                context, builder, signature.args[0], args[0], start, vector
            )
            lines.append(builder.load(where, align=align))
        for k, line in enumerate(_turned(builder, lines)):
            start = builder.add(entry(4, numbered(args[5], k)), args[6])
            where = _pointer_to(
                context, builder, signature.args[3], args[3], start, vector
            )
            builder.store(line, where, align=align)
        return context.get_dummy_value()

    return signature, generate


def _turned(builder: Any, lines: list[Any]) -> list[Any]:
    """Return the columns of a square of vectors.

    Squares of one, two and four numbers beside the diagonal change places in turn.
    """
    n = len(lines)
    size = 1
    while size < n:
        # Where each number comes from: below n from the first vector, else the second.
        upper = [k if not k & size else n + (k ^ size) for k in range(n)]
        lower = [k | size if not k & size else n + k for k in range(n)]
        turned = list(lines)
        for i in range(n):
            if not i & size:
                pair = lines[i], lines[i | size]
                for i_new, source in ((i, upper), (i | size, lower)):
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), n), source)
                    turned[i_new] = builder.shuffle_vector(*pair, mask)
        lines = turned
        size *= 2
    return lines


def turning(n_planes: int, has_bits: bool = HAS_BITS) -> Any:
    """Return an intrinsic ``(planes, word, apart, codes, start, first) -> None``."""

    def typer(
        _context: Any,
        planes: Any,
        word: Any,
        apart: Any,
        codes: Any,
        start: Any,
        first: Any,
    ) -> Any:
        index = types.uint64
        signature = types.void(planes, index, index, codes, index, types.int64)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = ir.IntType(32)
            octets = ir.VectorType(ir.IntType(8), WORD)
            many = ir.VectorType(number, WORD)

            def bytes_of(first_plane: int, end_plane: int) -> Any:
                """Return a byte for each row: the bits of up to eight planes."""
                total = None
                for plane in range(first_plane, end_plane):
                    factor = ir.Constant(ir.IntType(WORD), plane)
                    at = builder.add(args[1], builder.mul(args[2], factor))
                    kind = signature.args[0]
                    where = _pointer_to(
                        context, builder, kind, args[0], at, ir.IntType(WORD)
                    )
                    word = builder.load(where, align=8)
                    value = ir.Constant(octets, [1 << (plane - first_plane)] * WORD)
                    part = builder.and_(word_to_bytes(builder, word, has_bits), value)
                    total = part if total is None else builder.or_(total, part)
                return builder.zext(total, many)

            code = bytes_of(0, min(8, n_planes))
            if n_planes > 8:
                eight = ir.Constant(many, [8] * WORD)
                code = builder.or_(code, builder.shl(bytes_of(8, n_planes), eight))
            one = builder.insert_element(
                ir.Constant(many, ir.Undefined), builder.trunc(args[5], number), _zero()
            )
            zeros = ir.Constant(ir.VectorType(number, WORD), [0] * WORD)
            code = builder.add(code, builder.shuffle_vector(one, one, zeros))
            kind = signature.args[3]
            where = _pointer_to(context, builder, kind, args[3], args[4], many)
            builder.store(code, where, align=4)
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(typer)
