"""Vector code, for this processor and for one without vectors of bits."""

import numpy as np
import pytest

from spinney.runtime import plain_vectors, vector_code
from spinney.runtime.bit_vectors import bits_to_word, word_to_bytes
from spinney.runtime.compiler import compiles, ir, llvm

if not compiles:
    pytest.skip("there is no vector code without a compiler", allow_module_level=True)

import numba


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing_exceeds", [False, True])
def test_compares_the_same_with_and_without_vectors_of_bits(dtype, missing_exceeds):
    rng = np.random.default_rng(0)
    values = rng.integers(-2, 3, 64 * 6).astype(dtype)
    values[rng.random(len(values)) < 0.3] = np.nan
    values[:3] = np.inf, -np.inf, -0.0
    plain = plain_vectors.comparison(missing_exceeds)
    for has_bits in (False, True):
        intrinsic = vector_code.comparison(missing_exceeds, has_bits)

        @numba.njit
        def compare(values, start, threshold, intrinsic=intrinsic):
            return intrinsic(values, np.uint64(start), threshold)

        for start in (0, 1, 64, 317):
            for threshold in map(dtype, (0.0, 1.0, -np.inf, np.inf)):
                expected = plain(values, start, threshold)
                assert compare(values, start, threshold) == expected


@pytest.mark.parametrize("n_planes", [6, 16])
def test_turns_planes_the_same_with_and_without_vectors_of_bits(n_planes):
    rng = np.random.default_rng(n_planes)
    planes = rng.integers(0, 2**64, 3 * 16, dtype=np.uint64)
    expected = np.zeros(64, np.int32)
    plain_vectors.turning(n_planes)(planes, np.uint64(1), np.uint64(3), expected, 0, 5)
    for has_bits in (False, True):
        intrinsic = vector_code.turning(n_planes, has_bits)

        @numba.njit
        def turn(planes, codes, intrinsic=intrinsic):
            one, apart, start = np.uint64(1), np.uint64(3), np.uint64(0)
            intrinsic(planes, one, apart, codes, start, 5)

        codes = np.zeros(64, np.int32)
        turn(planes, codes)
        np.testing.assert_array_equal(codes, expected)


def _instructions_on_arm(build, *kinds):
    """Return how many instructions a function takes on a 64-bit ARM processor."""
    module = ir.Module(name="arm")
    result = ir.VectorType(ir.IntType(8), 64).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [*kinds, result])
    function = ir.Function(module, kind, name="f")
    builder = ir.IRBuilder(function.append_basic_block())
    build(builder, *function.args)
    builder.ret_void()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="generic", opt=3)
    text = machine.emit_assembly(llvm.parse_assembly(str(module)))
    return sum(
        line.startswith("\t") and not line.startswith("\t.")
        for line in text.splitlines()
    )


def test_does_not_go_bit_by_bit_on_arm():
    many = ir.VectorType(ir.FloatType(), 64)

    def compare(builder, values, target):
        both = builder.load(values), ir.Constant(many, [1.5] * 64)
        word = bits_to_word(builder, builder.fcmp_ordered(">", *both), False)
        word_pointer = ir.IntType(64).as_pointer()
        builder.store(word, builder.bitcast(target, word_pointer))

    def turn(builder, word, target):
        builder.store(word_to_bytes(builder, word, False), target)

    # 247 and 150 bit by bit.
    assert _instructions_on_arm(compare, many.as_pointer()) < 100
    assert _instructions_on_arm(turn, ir.IntType(64)) < 40
