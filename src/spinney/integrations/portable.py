"""A model that can be sent to workers, loaded once in each process.

Workers receive spinney's own file: its bytes, or its path if they can read it, in which
case they map it into memory instead of holding a copy each. No compiled code is sent;
kernels come from the kernel cache of the machine.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from collections import OrderedDict
from typing import Any

from spinney.errors import FormatError, InvalidArgumentError
from spinney.forest import Forest
from spinney.persistence.kinds import is_saved_as_it_is
from spinney.persistence.store import from_bytes, load, to_bytes
from spinney.readers import read_model

# How many models stay loaded in a process, the most recently used ones.
KEPT_MODELS = 8

_loaded: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def _new_lock() -> None:
    """Replace a lock that another thread may have held during a fork."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


class PortableModel:
    """A model that workers load once per process, however many tasks they run.

    Parameters
    ----------
    model : fitted classifier of spinney, Forest, trained model, or path
        The path of a file written by `spinney.save` is sent as a path: workers must be
        able to read it there, and map it into memory. Other files and objects are sent
        by content. A trained model of another library is read by `spinney.read_model`,
        and all its trees are evaluated.
    with_content : bool, default=False
        Whether to send the content in any case, for workers that share no disk.

    Attributes
    ----------
    digest : str
        Of the content. Equal models have equal digests.

    Raises
    ------
    TypeError
        If the model cannot be saved, such as a pipeline with custom steps.
    """

    def __init__(self, model: Any, *, with_content: bool = False) -> None:
        self._path: str | None = None
        self._content: bytes | None = None
        if isinstance(model, (str, os.PathLike)):
            model = self._from_path(os.path.abspath(os.fspath(model)))
        elif not is_saved_as_it_is(model):
            model = read_model(model)
        if self._path is None or with_content:
            self._content, self._path = to_bytes(model), None
            self.digest = hashlib.sha256(self._content).hexdigest()
        _keep(self.digest, model)

    def _from_path(self, path: str) -> Any:
        """Return the model in a file, and remember how to send it."""
        try:
            model = load(path)
        except FormatError:
            return read_model(path)  # a file of another library, or it raises
        self._path = path
        self.digest = _digest_of_file(path)
        return model

    @property
    def model(self) -> Any:
        """The model itself, loaded at most once in this process."""
        with _lock:
            if self.digest in _loaded:
                _loaded.move_to_end(self.digest)
                return _loaded[self.digest]
        model = self._load()
        return _keep(self.digest, model)

    @property
    def content(self) -> bytes:
        """The bytes of the model's file."""
        if self._content is not None:
            return self._content
        return to_bytes(self.model)

    @property
    def n_bytes(self) -> int:
        """Size of what is sent with each copy, in bytes."""
        return len(self._content) if self._content is not None else 0

    def _load(self) -> Any:
        if self._content is not None:
            return from_bytes(self._content)
        assert self._path is not None
        try:
            found = _digest_of_file(self._path)
        except OSError as error:
            msg = (
                f"This worker cannot read the model file {self._path!r} ({error}). Put "
                "it where all workers can read it, or pass spinney.load(path), which "
                "is sent by content."
            )
            raise FileNotFoundError(msg) from error
        if found != self.digest:
            msg = (
                f"The model file {self._path!r} is not the one that the job was built "
                "with: it has been replaced since, or this worker sees another file "
                "under this path. Build the job again."
            )
            raise InvalidArgumentError(msg)
        return load(self._path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._path, self._content, self.digest)

    # Dask names tasks by it.
    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "spinney model", self._path or "", self.digest

    def __repr__(self) -> str:
        where = self._path or f"{self.n_bytes:,} bytes"
        return f"<PortableModel: {where}>"


def _restored(path: str | None, content: bytes | None, digest: str) -> PortableModel:
    """Rebuild an unpickled object."""
    portable = PortableModel.__new__(PortableModel)
    portable._path, portable._content, portable.digest = path, content, digest
    return portable


def _keep(digest: str, model: Any) -> Any:
    """Return the one object of a model in this process; drop the oldest."""
    with _lock:
        model = _loaded.setdefault(digest, model)
        _loaded.move_to_end(digest)
        while len(_loaded) > KEPT_MODELS:
            _loaded.popitem(last=False)
    return model


def _digest_of_file(path: str) -> str:
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return hashlib.sha256(content).hexdigest()


def forest_of(model: Any) -> Forest:
    """Return the forest of a model that has been loaded."""
    return model if isinstance(model, Forest) else model.forest_
