"""Save and load: safetensors files, no pickle."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from spinney.errors import FormatError, InvalidForestError
from spinney.forest import Forest
from spinney.persistence.atomic_write import write_atomically
from spinney.persistence.container import (
    Arrays,
    Bytes,
    Contents,
    Settings,
    decode,
    encode,
)
from spinney.persistence.fields import (
    forest_from_parts,
    forest_to_parts,
    refuse_leftovers,
)


@dataclass(frozen=True)
class Kind:
    """A kind of object that can be saved.

    Parameters
    ----------
    name : str
        What the file calls it. Never changes.
    cls : type
        Its class. An instance of a subclass is another kind.
    to_parts : callable
        Returns the settings and arrays of an object. Refuses what cannot be stored
        with a `TypeError` or `ValueError`.
    from_parts : callable
        Takes out of settings and arrays all that belongs to an object, and returns
        it. The parts may be forged: they are checked, and refused with `FormatError`.
    """

    name: str
    cls: type
    to_parts: Callable[[Any], tuple[Settings, Arrays]]
    from_parts: Callable[[Settings, Arrays], Any]


_KINDS: dict[str, Kind] = {}
# Where the other kinds are registered. They need the compiled runtime, so they are
# loaded when something other than a forest is saved or loaded.
_KIND_MODULES = (
    "spinney.base.all_trees",
    "spinney.anytime.file_kind",
    "spinney.cascade",
    "spinney.pruning",
    "spinney.sequential.file_kind",
)


def register(kind: Kind) -> None:
    """Let `save` and `load` know a kind of object."""
    _KINDS[kind.name] = kind


register(Kind("forest", Forest, forest_to_parts, forest_from_parts))


def _all_kinds() -> dict[str, Kind]:
    for name in _KIND_MODULES:
        import_module(name)
    return _KINDS


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save an object to a file that :func:`load` reads.

    The file is a safetensors file: arrays and settings, no code. The same object
    gives the same bytes.

    Parameters
    ----------
    obj : Forest or fitted classifier of spinney
        What to save. Of a classifier whose model is a pipeline, or an ensemble of
        other things than trees, only the trees could be saved; it is refused.
    path : str or path
        Where. A file that is already there is replaced in one step: after a crash it
        is either the old one or the new one, whole, and forests loaded from the old
        one stay as they are. It keeps its permissions. A symbolic link stays a link.

    Raises
    ------
    TypeError
        If `obj`, or a part of it such as class labels that are dates, cannot be
        saved. Nothing has been written then.
    OSError
        If the file cannot be written; what was there before is still there.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import os, tempfile
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    >>> forest = spinney.read_model(model)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spinney.save(forest, os.path.join(folder, "iris.spinney"))
    ...     again = spinney.load(os.path.join(folder, "iris.spinney"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    name = _path_text(path)
    kinds = _KINDS if type(obj) is Forest else _all_kinds()
    for kind in kinds.values():
        if type(obj) is kind.cls:
            chunks = encode(Contents(kind.name, *kind.to_parts(obj)))
            write_atomically(name, chunks)
            return
    known = ", ".join(sorted(kind.cls.__name__ for kind in kinds.values()))
    msg = (
        f"save cannot save an object of type {type(obj).__module__}."
        f"{type(obj).__qualname__}. It saves objects of these types: {known}.\n"
        "Hint: spinney.read_model makes a Forest of a trained model."
    )
    raise TypeError(msg)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an object that :func:`save` has saved.

    No code from the file is run, and nothing in it is trusted: all of it is checked,
    so a file from an unknown sender does no harm.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    obj : Forest or fitted classifier of spinney
        What was saved. The arrays of a forest are not copied: they stay in the
        file, which the operating system maps into memory.

    Raises
    ------
    FormatError
        If the file is damaged, forged, of a newer format, or not one of spinney's.

    Notes
    -----
    While the object lives, the file may be replaced (as `save` does it), renamed or
    deleted, but it must not be changed in place or cut short: what has been checked
    would change under the object's feet, and the operating system ends a process
    that reads beyond the end of a file. So do not load a file that somebody whom you
    do not trust can write to; copy it first.

    See Also
    --------
    save : The way there.
    """
    name = _path_text(path)
    kind_name, settings, arrays = decode(_mapped(name), repr(name))
    kinds = _KINDS if kind_name in _KINDS else _all_kinds()
    if kind_name not in kinds:
        msg = (
            f"{name!r} holds an object of the unknown kind {kind_name[:40]!r}; known "
            f"are: {', '.join(sorted(kinds))}.\nHint: upgrade spinney."
        )
        raise FormatError(msg)
    try:
        obj = kinds[kind_name].from_parts(settings, arrays)
        refuse_leftovers(settings, arrays)
    except (FormatError, InvalidForestError) as error:
        reason = str(error).rstrip(".")
        if len(reason) > 300:  # a value from the file may be of any length
            reason = f"{reason[:300]} ..."
        msg = f"{name!r} does not hold a valid {kind_name}: {reason}."
        raise FormatError(msg) from error
    return obj


def _path_text(path: Any) -> str:
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str):
            return text
    msg = f"path must be a str or a pathlib.Path, got {path!r}."
    raise TypeError(msg)


def _mapped(name: str) -> Bytes:
    """Return the bytes of a file, read-only, mapped into memory rather than read."""
    try:
        status = os.stat(name)
    except FileNotFoundError as error:
        msg = f"There is no file {name!r}. Check the path."
        raise FileNotFoundError(msg) from error
    if stat.S_ISDIR(status.st_mode):
        msg = f"{name!r} is a directory. Pass the path of a file in it."
        raise IsADirectoryError(msg)
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
        msg = f"{name!r} is a device, a pipe or a socket, and no spinney file."
        raise FormatError(msg)
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            msg = f"{name!r} is empty. Save the object again."
            raise FormatError(msg)
        mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype=np.uint8)
