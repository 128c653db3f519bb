"""Save and load: safetensors files, no pickle."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Collection
from typing import Any

import numpy as np

from spinney.errors import FormatError, InvalidForestError
from spinney.persistence.atomic_write import write_atomically
from spinney.persistence.carried import (
    carrying,
    check_trusted,
    refuse_untrusted,
    trusting,
)
from spinney.persistence.container import Bytes, Contents, decode, encode
from spinney.persistence.fields import refuse_leftovers
from spinney.persistence.kinds import KINDS, put_together, taken_apart


def save(
    obj: Any, path: str | os.PathLike[str], *, unknown_steps: str = "refuse"
) -> None:
    """Save an object to a file that :func:`load` reads.

    The file is a safetensors file: arrays and settings, no code. The same object
    gives the same bytes, unless skops stores a part of it.

    Parameters
    ----------
    obj : Forest, or fitted classifier or regressor of spinney
        What to save. Of a pipeline the steps before the model are saved, too, if they
        are of the usual kinds (scalers, imputers, encoders, selections of columns).
        For other steps see `unknown_steps`; ensembles of other things than trees are
        refused.
    path : str or path
        The file to write. An existing file is replaced in one step: after a crash it is
        either the complete old one or the complete new one, and forests loaded from the
        old one do not change. It keeps its permissions. For a symbolic link, the target
        is replaced.
    unknown_steps : {"refuse", "skops"}, default="refuse"
        What to do with steps of a pipeline, or functions and other values inside them,
        of unknown kinds. ``"skops"`` stores them in the file in skops' format (this
        takes the extra ``skops``); `load` then needs `trusted`, a list of their types.
        Each is loaded once, to check that it can be.

    Raises
    ------
    TypeError
        If `obj`, or a part of it such as class labels that are dates, cannot be saved.
        Nothing is written then.
    OSError
        If the file cannot be written. An existing file is then unchanged.

    See Also
    --------
    load : Loads such a file.

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
    with carrying(unknown_steps):
        contents = Contents(*taken_apart(obj))
    write_atomically(name, encode(contents))


def to_bytes(obj: Any) -> bytes:
    """Return what :func:`save` would write to a file.

    Parameters
    ----------
    obj : Forest or fitted classifier of spinney
        What `save` takes.

    Returns
    -------
    content : bytes
        For `from_bytes`, or to be written to a file that `load` reads.
    """
    return b"".join(encode(Contents(*taken_apart(obj))))


def load(
    path: str | os.PathLike[str], *, trusted: Collection[str] | None = None
) -> Any:
    """Load an object that :func:`save` has saved.

    No code from the file is run. Everything in it is validated as untrusted input, so
    files from unknown sources can be loaded.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : list of str, optional
        Full names of the types that may be loaded for steps stored by skops (see
        `save`), in addition to those that skops itself knows to be safe, such as the
        other estimators of scikit-learn. Loading runs the code of these types, which
        must be importable. Without it, a file with such steps is refused, and the error
        lists what to pass. It has no effect on other files.

    Returns
    -------
    obj : Forest or fitted classifier of spinney
        What was saved. The arrays of a forest are not copied: they are views of the
        file, which the operating system maps into memory.

    Raises
    ------
    FormatError
        If the file is damaged, forged, of a newer format, or not written by spinney; or
        if it has steps stored by skops whose types are not trusted.
    ImportError
        If the file has steps stored by skops, and skops is missing or older than 0.12.

    Notes
    -----
    While the object is in use, the file may be replaced (as `save` does it), renamed or
    deleted, but it must not be changed or truncated in place: validated content would
    change, and the operating system kills a process that reads beyond the end of a
    file. So do not load a file directly that somebody whom you do not trust can write
    to; copy it first.

    See Also
    --------
    save : Writes such a file.
    """
    name = _path_text(path)
    check_trusted(trusted)
    return _object_in(_mapped(name), repr(name), trusted)


def from_bytes(content: bytes, name: str = "the model") -> Any:
    """Return the object of which these are the bytes of a file.

    Parameters
    ----------
    content : bytes
        What `to_bytes` returned, or what is in a file that `save` has written. All of
        it is checked.
    name : str, default="the model"
        What to call it in error messages.

    Returns
    -------
    obj : Forest or fitted classifier of spinney
        Its arrays are views of `content`.
    """
    return _object_in(np.frombuffer(content, dtype=np.uint8), name)


def _object_in(data: Bytes, name: str, trusted: Collection[str] | None = None) -> Any:
    """Return the object in the bytes of a file, which may be forged."""
    kind, settings, arrays = decode(data, name)
    if kind not in KINDS:
        msg = (
            f"{name} holds an object of the unknown kind {kind[:40]!r}; known "
            f"are: {', '.join(sorted(KINDS))}.\nHint: upgrade spinney."
        )
        raise FormatError(msg)
    refuse_untrusted(arrays, trusted, name)
    try:
        with trusting(trusted):
            obj = put_together(kind, settings, arrays)
        refuse_leftovers(settings, arrays)
    except (FormatError, InvalidForestError) as error:
        reason = str(error).rstrip(".")
        if len(reason) > 300:  # a value from the file may be of any length
            reason = f"{reason[:300]} ..."
        msg = f"{name} does not hold a valid {kind}: {reason}."
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
    except (FileNotFoundError, ValueError) as error:  # no path holds a zero byte
        msg = f"There is no file {name!r}. Check the path."
        raise FileNotFoundError(msg) from error
    if stat.S_ISDIR(status.st_mode):
        msg = f"{name!r} is a directory. Pass the path of a file in it."
        raise IsADirectoryError(msg)
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
        msg = f"{name!r} is a device, a pipe or a socket, not a spinney file."
        raise FormatError(msg)
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            msg = f"{name!r} is empty. Save the object again."
            raise FormatError(msg)
        mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype=np.uint8)
