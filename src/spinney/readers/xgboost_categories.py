"""The categories that an XGBoost model has kept of a data frame (since XGBoost 3.1).

Texts are stored as their bytes, one after another, with the offset at which each one
ends. XGBoost 3.1 and 3.2 count these offsets of a pandas frame in characters, so names
beyond ASCII are cut in the wrong places (xgboost #12360): what such a model predicts
depends on bytes that nobody meant, and it is refused. They also take a value that was
not seen in training for the next one in alphabetical order, where the documentation has
an error; here it is the error.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from spinney.errors import UnsupportedModelError
from spinney.readers.xgboost_trees import numbers, refuse_damaged

# What a document calls arrays of signed integers of 8, 16, 32 and 64 bits. Unsigned
# ones are written wrongly by XGBoost 3.1 and 3.2 (xgboost #12371).
SIGNED = (9, 11, 13, 15)


def read_categories(model: dict[str, Any]) -> list[list[Any] | None] | None:
    """Return the categories of each column, None if the model has kept none.

    Parameters
    ----------
    model : dict
        The part of the document that holds the trees.

    Raises
    ------
    UnsupportedModelError
        If the document is damaged, or the categories are not known for certain.
    """
    kept = model.get("cats")
    encodings = kept.get("enc") if isinstance(kept, dict) else None
    if not encodings:
        return None
    if not isinstance(encodings, list):
        refuse_damaged("'enc' of 'cats' is not a list")
    made = [_values(each, column) for column, each in enumerate(encodings)]
    return made if any(values is not None for values in made) else None


def _values(encoding: Any, column: int) -> list[Any] | None:
    values = numbers(encoding, "values")
    if "offsets" not in encoding:
        if encoding.get("type") not in SIGNED:
            msg = (
                f"The XGBoost model has categories of column {column} that are neither "
                "strings nor signed integers, which spinney cannot read.\nHint: train "
                "on strings or integers as categories."
            )
            raise UnsupportedModelError(msg)
        return values.tolist()
    if not len(values):
        return None
    ends = numbers(encoding, "offsets")
    rises = len(ends) > 1 and ends[0] == 0 and (ends[1:] >= ends[:-1]).all()
    if not rises or ends[-1] != len(values) or ((values < -128) | (values > 255)).any():
        refuse_damaged(f"the categories of column {column} are cut in strange places")
    if ((values < 0) | (values > 127)).any():
        msg = (
            f"The XGBoost model has categories of column {column} with letters beyond "
            "ASCII, which XGBoost 3.1 and 3.2 store in a damaged form (xgboost "
            "#12360).\nHint: train on other names of these categories, or on integer "
            "codes with feature_types=['c', ...]."
        )
        raise UnsupportedModelError(msg)
    text = values.astype(np.uint8).tobytes().decode("ascii")
    return [text[a:b] for a, b in pairwise(ends.tolist())]
