"""What is not known is refused: members of documents, and versions of libraries.

A future version of a library may write something new into its models on which
predictions depend. A reader that looks only for what it knows would overlook it and
predict wrongly, with nothing to show for it. So every member of a document has to be
one that was there when the reader was written.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable
from typing import Any

from spinney.errors import SpinneyWarning, UnsupportedModelError

# The newest version of each library that the readers were tested with.
NEWEST_TESTED = {
    "CatBoost": (1, 2, 10),
    "LightGBM": (4, 7, 0),
    "XGBoost": (3, 4, 1),
    "scikit-learn": (1, 9, 1),
}


def refuse_unknown(
    library: str, where: str, found: Iterable[str], known: Collection[str]
) -> None:
    """Raise an error if a part of a model has a member that is not known.

    Parameters
    ----------
    library : str
        Name of the library that wrote the model.
    where : str
        The part of the model, in words.
    found : iterable of str
        Names of its members.
    known : collection of str
        Names that the reader knows the meaning of.

    Raises
    ------
    UnsupportedModelError
        If there are others. They are named.
    """
    unknown = sorted(str(name)[:40] for name in found if name not in known)
    if not unknown:
        return
    newest = ".".join(map(str, NEWEST_TESTED[library]))
    shown = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
    msg = (
        f"The {library} model has members in {where} that spinney does not know "
        f"({shown}), and its predictions may depend on them.\nHint: spinney was tested "
        f"with {library} up to {newest}; save the model with such a version, or look "
        "for a newer spinney."
    )
    raise UnsupportedModelError(msg)


def parse_document(text: str) -> Any:
    """Return what a text in JSON holds, if no object in it has a name twice.

    Parameters
    ----------
    text : str
        The text. Of two members of the same name a library might read the first.

    Raises
    ------
    ValueError
        If the text is no JSON, or has a name twice.
    RecursionError
        If it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=members_once)


def members_once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return members as a dict, if no two have the same name."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            msg = f"the member {name[:40]!r} comes twice"
            raise ValueError(msg)
        members[name] = value
    return members


def warn_of_newer_version(library: str, version: Iterable[object] | str) -> None:
    """Warn if a model comes from a major version that was never tested.

    Parameters
    ----------
    library : str
        Name of the library.
    version : str or iterable of numbers
        Version that wrote the model, or that it is in memory with.
    """
    parts = version.split(".") if isinstance(version, str) else list(version)
    try:
        major = int(str(parts[0]))
    except (IndexError, ValueError):
        return
    tested = NEWEST_TESTED[library]
    if major <= tested[0]:
        return
    given, newest = (".".join(map(str, numbers)) for numbers in (parts, tested))
    msg = (
        f"The model was saved by {library} {given}, and spinney was tested with "
        f"{library} up to {newest}. Compare its predictions with the model's own "
        "before you rely on them."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=4)
