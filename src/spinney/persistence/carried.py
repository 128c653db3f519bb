"""Parts of steps that spinney's file does not know, carried in it by skops.

skops stores an object as names of types and their state, and makes an object again only
of types that it knows to be safe or that the caller trusts by name. So the names are
listed before anything is made, and nothing is made without an explicit word of whoever
loads the file.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import Any

import numpy as np

from spinney.errors import FormatError
from spinney.persistence.container import Arrays

UNKNOWN_STEPS = ("refuse", "skops")
# Before this version a file could hide from skops which functions it calls
# (CVE-2025-54412, CVE-2025-54413).
OLDEST_SKOPS = (0, 12)
NAME_OF_CARRIED = re.compile(r"_skops[0-9]+\Z")
MAX_SHOWN = 20  # of the names in a file, which may be forged

# Objects of every kind are saved and loaded by methods without options; what a call of
# `save` or `load` was told reaches the steps inside them by these.
_CARRIES: ContextVar[bool] = ContextVar("carries", default=False)
_TRUSTED: ContextVar[tuple[str, ...] | None] = ContextVar("trusted", default=None)


@contextmanager
def carrying(unknown_steps: str) -> Iterator[None]:
    """Say what happens to unknown steps that are saved meanwhile.

    Parameters
    ----------
    unknown_steps : {"refuse", "skops"}
        As for `spinney.save`.
    """
    if unknown_steps not in UNKNOWN_STEPS:
        msg = f"unknown_steps must be one of {UNKNOWN_STEPS}, got {unknown_steps!r}."
        raise ValueError(msg)
    token = _CARRIES.set(unknown_steps == "skops")
    try:
        yield
    finally:
        _CARRIES.reset(token)


@contextmanager
def trusting(trusted: Collection[str] | None) -> Iterator[None]:
    """Say which types may be made of carried parts that are loaded meanwhile.

    Parameters
    ----------
    trusted : collection of str, or None
        As for `spinney.load`.
    """
    token = _TRUSTED.set(None if trusted is None else tuple(trusted))
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def is_carrying() -> bool:
    """Whether unknown steps are to be carried by skops."""
    return _CARRIES.get()


def carried(value: Any) -> np.ndarray:
    """Return what skops writes for a value, after loading it once.

    Parameters
    ----------
    value : object
        A fitted step, or a part of one.

    Raises
    ------
    TypeError
        If skops cannot write it, or makes something else of what it has written.
    """
    io = _skops_io()
    try:
        content = io.dumps(value)
        again = io.loads(content, trusted=io.get_untrusted_types(data=content))
    except Exception as error:  # skops and the value's own code may raise anything
        msg = (
            f"skops cannot store an object of type {type_name(value)}: "
            f"{type(error).__name__}: {error}.\nHint: skops finds classes and "
            "functions by their names, at the top level of a module that can be "
            "imported; a lambda has none."
        )
        raise TypeError(msg) from error
    named = isinstance(value, type) or hasattr(value, "__qualname__")
    if again is not value if named else type(again) is not type(value):
        msg = f"skops does not restore an object of type {type_name(value)} as it was."
        raise TypeError(msg)
    return np.frombuffer(content, dtype=np.uint8)


def from_carried(array: np.ndarray) -> Any:
    """Return the value in the bytes of skops, which may be forged.

    Parameters
    ----------
    array : ndarray
        What `carried` has returned.

    Raises
    ------
    FormatError
        If the types in it are not trusted, or it is damaged.
    """
    trusted = _TRUSTED.get()
    content = _content(array)
    lacking = sorted(_untrusted_types(content) - set(trusted or ()))
    if trusted is None or lacking:
        msg = f"it holds steps of types that are not trusted: {lacking}"
        raise FormatError(msg)
    try:
        return _skops_io().loads(content, trusted=list(trusted))
    except Exception as error:  # what trusted types raise on a forged state
        msg = f"skops cannot load a step: {type(error).__name__}: {error}"
        raise FormatError(msg) from error


def check_trusted(trusted: Any) -> None:
    """Refuse what is no collection of names of types, nor None.

    Parameters
    ----------
    trusted : object
        The argument of `spinney.load`.
    """
    if trusted is None:
        return
    if isinstance(trusted, (list, tuple, set, frozenset)) and all(
        isinstance(one, str) for one in trusted
    ):
        return
    msg = (
        "trusted must be a list of names of types such as ['package.module.Step'], "
        f"got {trusted!r}."
    )
    raise TypeError(msg)


def refuse_untrusted(
    arrays: Arrays, trusted: Collection[str] | None, name: str
) -> None:
    """Refuse a file with carried parts, unless all their types are trusted.

    Parameters
    ----------
    arrays : dict
        All arrays of the file.
    trusted : collection of str, or None
        As for `spinney.load`.
    name : str
        What to call the file in the message.

    Raises
    ------
    FormatError
        The message lists the types of the whole file.
    """
    parts = [array for key, array in arrays.items() if NAME_OF_CARRIED.search(key)]
    if not parts:
        return
    try:
        needed = set().union(*(_untrusted_types(_content(part)) for part in parts))
    except FormatError as error:
        msg = f"{name} is damaged: {str(error)[:300]}."
        raise FormatError(msg) from error
    lacking = sorted(needed - set(trusted or ()))
    if trusted is not None and not lacking:
        return
    if lacking:
        shown = ", ".join(f"{one[:200]!r}" for one in lacking[:MAX_SHOWN])
        more = f" and {len(lacking) - MAX_SHOWN} more" * (len(lacking) > MAX_SHOWN)
        reason = f"of types that are not trusted: {shown}{more}"
    else:
        reason = "of types that skops knows to be safe, and trusted was not passed"
    wanted = ", ".join(f"{one[:200]!r}" for one in sorted(needed)[:MAX_SHOWN])
    msg = (
        f"{name} holds preprocessing steps stored by skops, {reason}.\nHint: "
        "loading them runs the code of their types. If you know these types and who "
        f"wrote the file, load it with spinney.load(path, trusted=[{wanted}])."
    )
    raise FormatError(msg)


def type_name(value: Any) -> str:
    """Return the full name of a value's type."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _content(array: np.ndarray) -> bytes:
    """Return the bytes of a carried part, if it is a file of skops by its form."""
    if array.dtype != np.uint8 or array.ndim != 1:
        msg = "a step stored by skops must be bytes"
        raise FormatError(msg)
    content = array.tobytes()
    try:
        with zipfile.ZipFile(BytesIO(content)) as file:
            members = file.infolist()
    except Exception as error:  # zipfile raises a good many types on forged bytes
        msg = f"a step stored by skops is damaged: {error}"
        raise FormatError(msg) from error
    # skops does not compress; a few forged bytes could become gigabytes.
    if any(
        one.compress_type != zipfile.ZIP_STORED or one.file_size > len(content)
        for one in members
    ):
        msg = "a step stored by skops must not be compressed"
        raise FormatError(msg)
    return content


def _untrusted_types(content: bytes) -> set[str]:
    io = _skops_io()
    try:
        return set(io.get_untrusted_types(data=content))
    except Exception as error:  # of forged bytes, any
        msg = f"a step stored by skops is damaged: {type(error).__name__}: {error}"
        raise FormatError(msg) from error


def _skops_io() -> Any:
    remedy = (
        'Install the extra "skops": python -m pip install --upgrade "spinney[skops]"'
    )
    try:
        import skops
        from skops import io
    except ImportError as error:
        msg = (
            "Steps that spinney does not know are stored by skops, which is not "
            f"installed. {remedy}"
        )
        raise ImportError(msg) from error
    numbers = re.findall(r"[0-9]+", skops.__version__)[:2]
    if tuple(int(number) for number in numbers) < OLDEST_SKOPS:
        msg = (
            f"skops {skops.__version__} does not detect all forged files; 0.12 or "
            f"newer is needed. {remedy}"
        )
        raise ImportError(msg)
    return io
