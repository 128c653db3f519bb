"""Names of columns as they are given, and as a model has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def names_of_model(given: Iterable[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the given names by what a model calls them.

    LightGBM has underscores for blanks in its models.

    Parameters
    ----------
    given : iterable of hashable
        The columns of a data frame, or the keys of a row.
    names : sequence of str
        Of the model.
    """
    known = {name: name for name in given}
    if all(name in known for name in names):
        return known
    return {str(name).replace(" ", "_"): name for name in known} | known
