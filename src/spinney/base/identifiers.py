"""Names in C code, checked before anything that writes the code is loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from spinney.errors import InvalidArgumentError

# A prefix alone is never a word that C or C++ keep for themselves, but the file is
# often named after it.
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MAX_NAME = 40


def checked_identifier(name: Any, path: Path) -> str:
    """Return the prefix of all names in a C file, or raise.

    Parameters
    ----------
    name : str or None
        The prefix; None for the name of the file.
    path : path
        The file.
    """
    chosen = path.stem if name is None else name
    if (
        isinstance(chosen, str)
        and IDENTIFIER.fullmatch(chosen)
        and len(chosen) <= MAX_NAME
        and chosen != "P"
    ):
        return chosen
    hint = "Pass name='model', say."
    if name is not None:
        hint = "Pass letters, digits and underscores, a letter first."
    what = "The name of the file" if name is None else "name"
    msg = (
        f"{what} must be a C identifier of at most {MAX_NAME} characters, got "
        f"{chosen!r}. {hint}"
    )
    raise InvalidArgumentError(msg)
