"""A choice that stays a choice: no branch on any processor of the x86 family."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import spinney.runtime.branch_free as branch_free
from spinney.runtime.bitslice_kernels import _rank
from spinney.runtime.compiler import compiles, llvm, numba, types

on_x86 = pytest.mark.skipif(
    not compiles or platform.machine().lower() not in ("x86_64", "amd64"),
    reason="needs the compiler, on x86-64",
)


@pytest.fixture(params=[True, False], ids=["marked", "masked"])
def number_if(request):
    return branch_free._choose(request.param)


def test_gives_the_number_or_zero(number_if):
    choose = numba.njit(lambda value, limit, number: number_if(value > limit, number))
    for value, limit in [(1.0, 0.0), (0.0, 0.0), (np.nan, 0.0), (0.0, np.nan)]:
        for number in (np.uint32(0), np.uint32(7), np.uint32(2**32 - 1)):
            assert choose(value, limit, number) == (number if value > limit else 0)


@on_x86
@pytest.mark.parametrize("processor", ["x86-64-v3", "skylake-avx512", "znver3"])
@pytest.mark.parametrize("numbers", ["float32", "float64"])
def test_the_search_for_ranks_does_not_branch(numbers, processor):
    values, ranks = getattr(types, numbers)[::1], types.uint32[::1]
    n = types.int64
    search = numba.njit(_rank.py_func)
    search.compile((values, n, n, values, n, n, ranks))
    module = llvm.parse_assembly(next(iter(search.inspect_llvm().values())))
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=processor, opt=3)
    code = machine.emit_assembly(module)
    # What first makes use of each comparison.
    uses = re.findall(r"ucomis[sd].*?\n\s+(j|cmov|set|sbb|adc)", code, re.DOTALL)
    assert uses
    assert "j" not in uses, code
