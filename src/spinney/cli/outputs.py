"""Files that commands write: whether they can be, before any work is done."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from spinney.errors import InvalidArgumentError
from spinney.persistence.atomic_write import plain_system_errors


def check_outputs(*outputs: Path | None, inputs: tuple[Path | None, ...] = ()) -> None:
    """Raise if a file cannot be written, or would replace one that is read.

    Parameters
    ----------
    *outputs : path or None
        Files that are going to be written; None is no file.
    inputs : tuple of path or None, default=()
        Files that are read.

    Raises
    ------
    OSError
        If there is no such folder, or no permission to write there.
    InvalidArgumentError
        If a file is to be written to an input, or two of them to one place.
    """
    seen: dict[Path, Path] = {}
    for path in outputs:
        if path is None:
            continue
        with plain_system_errors(str(path)):
            _check_place(path)
        for given in inputs:
            if given is not None and _are_same(path, given):
                msg = (
                    f"{str(path)!r} is both read and written. Choose another name for "
                    "the output."
                )
                raise InvalidArgumentError(msg)
        real = Path(os.path.realpath(path))  # takes links in a circle, too
        if real in seen:
            msg = f"{str(path)!r} cannot take two outputs. Choose another name for one."
            raise InvalidArgumentError(msg)
        seen[real] = path


def check_suffix(path: Path | None, what: str, suffixes: tuple[str, ...]) -> None:
    """Raise if the name of a file does not tell a kind that can be written.

    Parameters
    ----------
    path : path or None
        The file; None is no file.
    what : str
        What it is to hold, for the message.
    suffixes : tuple of str
        Endings to choose from, each with its dot.
    """
    if path is None or path.name.lower().endswith(suffixes):
        return
    known = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
    msg = f"{what} must have a name that ends with {known}, got {str(path)!r}."
    raise InvalidArgumentError(msg)


def check_installed(path: Path | None, library: str, extra: str) -> None:
    """Raise if a library that writes a file is missing, before any work is done.

    Parameters
    ----------
    path : path or None
        The file; None is no file.
    library : str
        What is imported to write it.
    extra : str
        The extra of spinney that installs this library.
    """
    if path is not None:
        check_extra(f"Writing {str(path)!r}", library, extra)


def check_extra(what: str, library: str, extra: str) -> None:
    """Raise if a library is missing, without importing it.

    Parameters
    ----------
    what : str
        What needs it, for the message.
    library : str
        What is imported.
    extra : str
        The extra of spinney that installs it.
    """
    if find_spec(library) is None:
        msg = (
            f"{what} needs {library}, which is not installed. Install the extra "
            f'"{extra}": python -m pip install "spinney[{extra}]"'
        )
        raise ImportError(msg)


def _check_place(path: Path) -> None:
    if path.is_dir():
        msg = f"{str(path)!r} is a directory. Pass the name of a file in it."
        raise IsADirectoryError(msg)
    folder = Path(os.path.realpath(path)).parent
    if folder.exists() and not folder.is_dir():
        msg = f"{str(folder)!r} is a file, not a directory. Choose another directory."
        raise NotADirectoryError(msg)
    if not folder.is_dir():
        msg = (
            f"There is no directory {str(folder)!r} for {path.name!r}. Create it first."
        )
        raise FileNotFoundError(msg)
    # A file is written beside its place and then renamed: both must be allowed.
    if not os.access(folder, os.W_OK) or (
        path.exists() and not os.access(path, os.W_OK)
    ):
        msg = (
            f"No permission to write {str(path)!r}. Choose another directory, or "
            "change the permissions."
        )
        raise PermissionError(msg)


def _are_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
