"""What is said while kernels are compiled, and to whom."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import pytest

from spinney.runtime.kernel_sources import PACKAGE

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled"),
    pytest.mark.skipif(sys.platform == "win32", reason="no terminals to open"),
]

COMPILE = """
import sys
from spinney.runtime import compile_notice
compile_notice.PATIENCE_SECONDS = float(sys.argv[1])
from spinney.runtime.kernel_cache import kernel

def add(a, b):
    return a + b

def double(a):
    return twice(a) + 0.5

twice = kernel(lambda a: 2 * a)
assert kernel(add)(1, 2) == 3
assert kernel(double)(2.0) == 4.5
"""


def said_on_a_terminal(tmp_path, patience, folder="kernels"):
    """Return what a process that compiles says to somebody in front of it."""
    ours, theirs = os.openpty()
    environment = {
        "PYTHONPATH": str(PACKAGE.parent),
        "SPINNEY_CACHE_DIR": str(tmp_path / folder),
    }
    command = [sys.executable, "-c", COMPILE, str(patience)]
    subprocess.run(command, env=os.environ | environment, stderr=theirs, check=True)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux: the other side is closed
            part = b""
        if not part:
            os.close(ours)
            return said.decode().replace("\r\n", "\n")
        said += part


def test_a_long_compilation_is_told_once_with_where_it_is_kept(tmp_path):
    said = said_on_a_terminal(tmp_path, patience=0.0)
    assert said.count("spinney: compiling") == 1, said
    assert "seconds" in said
    *told, where, _ = said.split("\n")
    assert all(len(line) <= 80 for line in told), said
    assert where.startswith("It is kept in")  # not broken, to be copied
    assert f"kept in {tmp_path / 'kernels'}" in said
    # Found on disk: nothing is compiled, and nothing is said.
    assert said_on_a_terminal(tmp_path, patience=0.0) == ""


def test_a_short_compilation_is_not_mentioned(tmp_path):
    assert said_on_a_terminal(tmp_path, patience=60.0) == ""


def test_what_is_not_kept_is_not_said_to_be(tmp_path):
    (tmp_path / "kernels").touch()  # no folder can be made below a file
    said = said_on_a_terminal(tmp_path, patience=0.0)
    assert "kept in" not in said
    assert "SPINNEY_CACHE_DIR" in said


def test_nothing_is_said_where_nobody_sits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, "0"],
        env=os.environ
        | {"PYTHONPATH": str(PACKAGE.parent)}
        | {"SPINNEY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
