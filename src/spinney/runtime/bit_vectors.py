"""Vectors of 64 bits, as words and back, on processors with and without them.

Processors of the x86 family turn the outcome of a comparison into an integer, and back,
in a step or two per vector. NEON has no such step, and LLVM goes bit by bit there: to
turn eight words into a number per row took 1,180 instructions for 64 rows, and with
LLVM 14 a comparison took 247. Vectors of bytes take 240 and 77.
"""

from __future__ import annotations

import platform
from typing import Any

from spinney.runtime.compiler import ir

# Whether this kind of processor has vectors of bits; else vectors of bytes stand in.
HAS_BITS = platform.machine().lower() in ("x86_64", "amd64")

_BITS = 64
_BITS_OF_BYTES = [1 << (k % 8) for k in range(_BITS)]


def bits_to_word(builder: Any, bits: Any, has_bits: bool) -> Any:
    """Return a vector of 64 bits as one word: element k becomes bit k.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where instructions go.
    bits : llvmlite.ir.Value
        The vector.
    has_bits : bool
        Whether to rely on vectors of bits. Otherwise every byte keeps the bit that it
        becomes in its group of eight, and neighbours are added up three times.
    """
    if has_bits:
        return builder.bitcast(bits, ir.IntType(_BITS))
    n = _BITS
    octets = ir.VectorType(ir.IntType(8), n)
    total = builder.sext(bits, octets)
    total = builder.and_(total, ir.Constant(octets, _BITS_OF_BYTES))
    while n > 8:
        n //= 2
        index = ir.VectorType(ir.IntType(32), n)
        even, odd = (
            builder.shuffle_vector(
                total, total, ir.Constant(index, list(range(first, 2 * n, 2)))
            )
            for first in (0, 1)
        )
        total = builder.add(even, odd)
    return builder.bitcast(total, ir.IntType(_BITS))


def word_to_bytes(builder: Any, word: Any, has_bits: bool) -> Any:
    """Return a vector of 64 bytes: all ones where a word has its bit, else zero.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where instructions go.
    word : llvmlite.ir.Value
        The word.
    has_bits : bool
        Whether to rely on vectors of bits. Otherwise every byte of the word is repeated
        eight times, and each copy is tested for a bit of its own.
    """
    octets = ir.VectorType(ir.IntType(8), _BITS)
    if has_bits:
        bits = builder.bitcast(word, ir.VectorType(ir.IntType(1), _BITS))
        return builder.sext(bits, octets)
    eight = builder.bitcast(word, ir.VectorType(ir.IntType(8), 8))
    index = ir.VectorType(ir.IntType(32), _BITS)
    repeat = ir.Constant(index, [k // 8 for k in range(_BITS)])
    copies = builder.shuffle_vector(eight, eight, repeat)
    kept = builder.and_(copies, ir.Constant(octets, _BITS_OF_BYTES))
    none = ir.Constant(octets, [0] * _BITS)
    return builder.sext(builder.icmp_unsigned("!=", kept, none), octets)
