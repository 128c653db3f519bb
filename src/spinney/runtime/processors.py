"""Levels of processors that compiled kernels are made for, and what this one can do.

A kernel is compiled for the very processor it runs on, and found again only where name
and features are the same. A fleet of mixed processors shares one folder if the kernels
in it are compiled for a level that all of them reach: such kernels are loaded wherever
every feature of the level is there, and nowhere else.
"""

from __future__ import annotations

import platform
from functools import cache

from spinney.errors import InvalidArgumentError
from spinney.runtime.compiler import config, llvm

_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_ARM = {"generic": frozenset({"neon"})}
# Features that each level needs, by LLVM's names, the lowest level first. They are all
# that LLVM may use for a processor of that name.
_LEVELS: dict[str, dict[str, frozenset[str]]] = {
    "x86_64": {
        "x86-64": frozenset({"sse2"}),
        "x86-64-v2": _V2,
        "x86-64-v3": _V3,
        "x86-64-v4": _V4,
    },
    "aarch64": _ARM,
}
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


def levels() -> dict[str, frozenset[str]]:
    """Return the features of each level of this kind of machine, the lowest first."""
    machine = platform.machine().lower()
    return _LEVELS.get(_SAME_MACHINE.get(machine, machine), {})


@cache
def host_features() -> frozenset[str]:
    """Return the features of this processor, as far as Numba would use them."""
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this kind of processor
        return frozenset()
    features = {name for name, is_there in found.items() if is_there}
    if not config.ENABLE_AVX:  # type: ignore[attr-defined]
        features = {name for name in features if not name.startswith("avx")}
    return frozenset(features)


def target_name() -> str:
    """Return the name of the processor, or level, that kernels are compiled for."""
    name: str | None = config.CPU_NAME  # type: ignore[attr-defined]
    return name or llvm.get_host_cpu_name()


def reached_levels() -> list[str]:
    """Return the levels whose features this processor has, the highest first."""
    here = host_features()
    return [name for name, needed in levels().items() if needed <= here][::-1]


def check_level(name: str) -> str:
    """Return the name of a level, or refuse it.

    Parameters
    ----------
    name : str
        What kernels are to be compiled for.

    Returns
    -------
    name : str
        The same.

    Raises
    ------
    InvalidArgumentError
        If there is no such level, or if this processor does not reach it: kernels are
        run once when they are compiled ahead.
    """
    known = levels()
    if name not in known:
        names = ", ".join(map(repr, known)) or "none"
        msg = (
            f"cpu must be a level of this kind of machine ({names}), got {name!r}. "
            "Leave it out to compile for this very processor."
        )
        raise InvalidArgumentError(msg)
    if name not in reached_levels():
        lacking = ", ".join(sorted(known[name] - host_features()))
        msg = (
            f"cpu={name!r} needs features that this processor lacks: {lacking}. "
            "Compile on a machine that has them, or for a lower level."
        )
        raise InvalidArgumentError(msg)
    return name


def target_settings(name: str) -> dict[str, str]:
    """Return the environment in which Numba compiles for a level."""
    return {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
