"""Kernels for a fleet of mixed processors: found by all that can run them."""

from __future__ import annotations

import itertools
import os
import platform
import subprocess
import sys

import numba
import pytest

from spinney.errors import InvalidArgumentError
from spinney.runtime import kernel_cache, processors
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.kernel_folders import folder_to_write, folders_to_read
from spinney.runtime.kernel_sources import PACKAGE
from spinney.runtime.processors import (
    check_level,
    host_features,
    levels,
    reached_levels,
    target_settings,
)

compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled"
)
on_x86 = pytest.mark.skipif(
    "x86-64" not in levels(), reason=f"levels of x86-64, on {platform.machine()}"
)


@on_x86
def test_each_level_has_all_features_of_the_one_below():
    names = list(levels())
    assert names == ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
    for lower, higher in itertools.pairwise(names[1:]):
        assert levels()[lower] < levels()[higher]


@on_x86
@pytest.mark.parametrize(
    ("lacking", "reached"),
    [
        ("avx512vl", ["x86-64-v3", "x86-64-v2", "x86-64"]),
        ("fma", ["x86-64-v2", "x86-64"]),
        ("popcnt", ["x86-64"]),
    ],
)
def test_a_level_is_reached_with_all_its_features_only(lacking, reached, monkeypatch):
    everything = frozenset.union(*levels().values())
    monkeypatch.setattr(processors, "host_features", lambda: everything - {lacking})
    assert reached_levels() == reached
    with pytest.raises(InvalidArgumentError, match=lacking):
        check_level("x86-64-v4")


def test_avx_that_numba_is_told_not_to_use_is_not_there(monkeypatch):
    monkeypatch.setattr(numba.config, "ENABLE_AVX", 0)
    assert not [f for f in host_features.__wrapped__() if f.startswith("avx")]


def test_a_machine_of_another_kind_has_levels_of_its_own(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert list(levels()) == ["generic"]
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert levels() == {}
    with pytest.raises(InvalidArgumentError, match="none"):
        check_level("generic")


def test_an_unknown_level_is_refused_by_name():
    with pytest.raises(InvalidArgumentError, match="'pentium'"):
        check_level("pentium")


# ------------------------------------------------------- compiled for a level

WIDE = """
import numpy as np
from spinney.runtime.kernel_cache import kernel


@kernel
def scale(values):
    for i in range(values.shape[0]):
        values[i] *= 3


def use():
    values = np.arange(100.0)
    scale(values)
    assert (values == 3 * np.arange(100)).all()
    return "loaded" if sum(scale.stats.cache_hits.values()) else "compiled"
"""


@pytest.fixture
def run_use(tmp_path):
    """Return a function that uses a kernel in a new process, and what that prints."""
    (tmp_path / "wide.py").write_text(WIDE)

    def run(before="", after="", settings=None):
        code = f"{before}\nimport wide\nprint(wide.use())\n{after}"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ
            | {"PYTHONPATH": str(PACKAGE.parent)}
            | {"SPINNEY_CACHE_DIR": str(tmp_path / "kernels")}
            | (settings or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


LACKING = """
from spinney.runtime import processors
processors.host_features = lambda: frozenset({"sse2"})
"""
ASSEMBLER = """
(text,) = wide.scale.inspect_asm().values()
print("ymm" in text or "zmm" in text)
"""


@compiled_only
@on_x86
def test_kernels_for_a_level_are_found_where_it_is_reached_and_only_there(run_use):
    if "x86-64-v2" not in reached_levels():
        pytest.skip("this processor does not reach the level")
    for_all = target_settings("x86-64-v2")
    # Nothing beyond the level is used, whatever this processor could do.
    assert run_use(after=ASSEMBLER, settings=for_all) == ["compiled", "False"]
    assert run_use() == ["loaded"]
    # A processor without the features compiles for itself instead.
    assert run_use(before=LACKING) == ["compiled"]
    assert run_use() == ["loaded"]


@compiled_only
def test_code_for_this_very_processor_comes_before_that_for_all(tmp_path, monkeypatch):
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path))
    folders_to_read.cache_clear()
    folder_to_write.cache_clear()

    @kernel
    def double(x):
        return 2 * x

    double(1)
    (signature,) = double.signatures
    cache = kernel_cache.KernelCache(double.py_func)
    codegen = double.overloads[signature].codegen
    keys = list(cache._keys(signature, codegen))
    assert keys[0][1] == codegen.magic_tuple()
    assert [key[1][1] for key in keys[1:]] == reached_levels()
    # Name and features of the processor are part of the key.
    assert len({cache._file_name(key) for key in keys}) == len(keys)
    folders_to_read.cache_clear()
    folder_to_write.cache_clear()
