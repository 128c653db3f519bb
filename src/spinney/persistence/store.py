"""Save and load: safetensors files, no pickle."""

from __future__ import annotations

import mmap
import os
import stat
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

# All kinds of objects that can be saved: what a file calls the kind, and its class.
# The name never changes; an instance of a subclass is another kind. A class is imported
# only when an object of its kind is loaded.
#
# A class has two methods for this. ``__spinney_save__(self)`` returns the settings and
# arrays of an object, and refuses what cannot be stored with a `TypeError` or
# `ValueError`. The class method ``__spinney_load__(cls, settings, arrays)`` takes all
# that belongs to an object out of them and returns the object. Both may be forged: it
# checks them, and refuses with `FormatError`.
KINDS = {
    "all_trees": "spinney.base.all_trees:AllTreesClassifier",
    "all_trees_regressor": "spinney.base.all_trees:AllTreesRegressor",
    "anytime": "spinney.anytime.classifier:AnytimeForestClassifier",
    "budgeted_forest": "spinney.pruning.budgeted:BudgetedForestClassifier",
    "cascade": "spinney.cascade.classifier:CascadeClassifier",
    "feature_cost_pruner": "spinney.pruning.pruner:FeatureCostPruner",
    "forest": "spinney.forest.forest:Forest",
    "sequential": "spinney.sequential.classifier:SequentialVotingClassifier",
}


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save an object to a file that :func:`load` reads.

    The file is a safetensors file: arrays and settings, no code. The same object
    gives the same bytes.

    Parameters
    ----------
    obj : Forest, or fitted classifier or regressor of spinney
        What to save. Of a pipeline the steps before the model are saved, too, if they
        are of the usual kinds (scalers, imputers, encoders, selections of columns).
        Other steps, and ensembles of other things than trees, are refused.
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
    write_atomically(name, encode(_contents_of(obj)))


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
    return b"".join(encode(_contents_of(obj)))


def _contents_of(obj: Any) -> Contents:
    """Return the parts of an object that can be saved, or raise."""
    own = f"{type(obj).__module__}:{type(obj).__qualname__}"
    for kind, cls in KINDS.items():
        if cls == own:
            return Contents(kind, *_take_apart(obj))
    known = ", ".join(sorted(cls.partition(":")[2] for cls in KINDS.values()))
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
    return _object_in(_mapped(name), repr(name))


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


def _object_in(data: Bytes, name: str) -> Any:
    """Return the object in the bytes of a file, which may be forged."""
    kind, settings, arrays = decode(data, name)
    if kind not in KINDS:
        msg = (
            f"{name} holds an object of the unknown kind {kind[:40]!r}; known "
            f"are: {', '.join(sorted(KINDS))}.\nHint: upgrade spinney."
        )
        raise FormatError(msg)
    try:
        obj = _put_together(kind, settings, arrays)
        refuse_leftovers(settings, arrays)
    except (FormatError, InvalidForestError) as error:
        reason = str(error).rstrip(".")
        if len(reason) > 300:  # a value from the file may be of any length
            reason = f"{reason[:300]} ..."
        msg = f"{name} does not hold a valid {kind}: {reason}."
        raise FormatError(msg) from error
    return obj


# A forest is a layer below files, so it is taken apart from here.
def _take_apart(obj: Any) -> tuple[Settings, Arrays]:
    if type(obj) is Forest:
        return forest_to_parts(obj)
    parts: tuple[Settings, Arrays] = obj.__spinney_save__()
    return parts


def _put_together(kind: str, settings: Settings, arrays: Arrays) -> Any:
    if kind == "forest":
        return forest_from_parts(settings, arrays)
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name).__spinney_load__(settings, arrays)


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
        msg = f"{name!r} is a device, a pipe or a socket, and no spinney file."
        raise FormatError(msg)
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            msg = f"{name!r} is empty. Save the object again."
            raise FormatError(msg)
        mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return np.frombuffer(mapping, dtype=np.uint8)
