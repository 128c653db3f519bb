"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

# Absent on some systems: there it changes nothing.
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
# So much of a path is shown in a message.
_SHOWN = 100


def write_atomically(path: str, chunks: Iterable[bytes | memoryview]) -> None:
    """Put `chunks` into a file under `path`, replacing what is there in one step.

    The bytes go to a new file in the same directory, onto the disk, and only then
    under their name. Whoever opens `path` meanwhile, or after a crash, gets the old
    file or the new one, never a part. A process that is killed may leave the new file
    behind, as ``.spinney-*.partial``; an error does not.

    Parameters
    ----------
    path : str
        File to write. If it is a symbolic link, the link stays and the file that it
        points to is replaced, as with ``open(path, "wb")``.
    chunks : iterable of bytes or memoryview
        The content.
    """
    write_together({path: chunks})


def write_together(files: Mapping[str, Iterable[bytes | memoryview]]) -> None:
    """Write several files as `write_atomically` does, all of them or none.

    Every file is whole on the disk before the first gets its name.

    Parameters
    ----------
    files : mapping of str to iterable of bytes or memoryview
        Path and content of each.
    """
    targets = {path: os.path.realpath(path) for path in files}
    modes: dict[str, int | None] = {}
    for path, target in targets.items():
        with plain_system_errors(path):
            modes[path] = _mode_to_keep(path, target)
    partials: dict[str, str] = {}
    try:
        for path, chunks in files.items():
            folder = os.path.dirname(targets[path])
            if not os.path.isdir(folder):
                msg = (
                    f"There is no directory {folder!r} to save {path!r} in. Create it "
                    "first."
                )
                raise FileNotFoundError(msg)
            # An interruption in the very moment that the file is made leaves nothing
            # behind either: hence its name is noted before.
            name = f".spinney-{secrets.token_hex(8)}.partial"
            partial = partials[path] = os.path.join(folder, name)
            with plain_system_errors(path), _new_file(partial, path) as file:
                mode = modes[path]
                if mode is not None:
                    os.chmod(partial, mode)
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            with plain_system_errors(path):
                os.replace(partial, targets[path])
    except BaseException:
        for partial in partials.values():
            with contextlib.suppress(OSError):
                os.unlink(partial)
        raise
    for folder in {os.path.dirname(target) for target in targets.values()}:
        _sync_folder(folder)


@contextlib.contextmanager
def plain_system_errors(path: str) -> Iterator[None]:
    """Say what is wrong with a path, where the system has no more than a code for it.

    Parameters
    ----------
    path : str
        The file that is to be written, as the user named it.
    """
    try:
        _refuse_too_long(path)
        yield
    except OSError as error:
        if error.errno is None:  # a message of our own
            raise
        shown = repr(path)
        if len(path) > _SHOWN:
            shown = repr(path[: _SHOWN // 2] + "..." + path[-_SHOWN // 2 :])
        if error.errno == errno.ENAMETOOLONG:
            msg = (
                f"The path {shown} is too long for the file system. Pass a shorter one."
            )
        elif error.errno == errno.ELOOP:
            msg = (
                f"{shown} is a symbolic link that leads back to itself. Remove it, or "
                "pass another path."
            )
        else:
            msg = f"{shown} could not be written: {error.strerror}."
        plain = type(error)(msg)
        plain.errno = error.errno
        raise plain from error


def _refuse_too_long(path: str) -> None:
    """Raise the system's error; pathlib from Python 3.14 on finds nothing there."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
    except ValueError:  # a null byte: whoever opens the file says so
        pass


def _new_file(partial: str, path: str) -> BinaryIO:
    """Make a file under the name `partial`, which nothing has yet, to save `path`."""
    try:
        return open(partial, "xb")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        folder = os.path.dirname(partial)
        msg = (
            f"No permission to make a file in the directory {folder!r}, which saving "
            f"{path!r} needs. Save to another directory, or change its permissions."
        )
        raise PermissionError(msg) from error


def _mode_to_keep(path: str, target: str) -> int | None:
    """Return the permissions of the file to be replaced, None if there is none."""
    try:
        old = os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(old.st_mode):
        msg = f"{path!r} is a directory. Pass the name of a file in it."
        raise IsADirectoryError(msg)
    if not stat.S_ISREG(old.st_mode):
        # Replacing a device or a pipe would take it away from everybody else.
        msg = f"{path!r} is a device, a pipe or a socket. Pass the name of a file."
        raise OSError(msg)
    # Replacing needs no permission on the old file, but a file that was made
    # read-only is not meant to be replaced.
    if not os.access(target, os.W_OK):
        msg = (
            f"No permission to write to {path!r}. Save under another name, or make "
            "the file writable."
        )
        raise PermissionError(msg)
    return stat.S_IMODE(old.st_mode) & 0o777


def _sync_folder(folder: str) -> None:
    """Put the new name onto the disk, where the system can do that."""
    # The new file is whole and in place. Where a directory cannot be opened or synced
    # (Windows, some network disks), a power cut may still bring the old file back.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | _DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
