"""Sets of categories as bits, the form in which a `Forest` holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError

# A quarter of a gigabyte of category sets; real models need a fraction of that.
MAX_WORDS = 2**26


def pack_sets(sets: Sequence[NDArray[np.int64]], model: str) -> dict[str, NDArray[Any]]:
    """Return sets of categories as the two arrays that `Forest` takes.

    Parameters
    ----------
    sets : sequence of ndarray of int
        Categories in each set, none negative.
    model : str
        How an error names the model.

    Returns
    -------
    arrays : dict
        ``category_offsets`` and ``category_words``.

    Raises
    ------
    UnsupportedModelError
        If the sets would take more than `MAX_WORDS` words.
    """
    n_words = [int(members.max(initial=-1)) // 32 + 1 for members in sets]
    offsets = np.concatenate([[0], np.cumsum(n_words)])
    if offsets[-1] > MAX_WORDS:
        msg = (
            f"{model} has category sets of {int(offsets[-1]) * 4:,} bytes in "
            f"all; spinney reads up to {MAX_WORDS * 4:,}.\n"
            "Hint: number the categories without gaps, from 0."
        )
        raise UnsupportedModelError(msg)
    words = np.zeros(offsets[-1], dtype=np.uint32)
    for start, members in zip(offsets[:-1], sets, strict=True):
        bits = np.uint32(1) << (members % 32).astype(np.uint32)
        np.bitwise_or.at(words, start + members // 32, bits)
    return {"category_offsets": offsets, "category_words": words}


def is_member(
    words: NDArray[np.uint32], categories: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Return which of `categories` are in the set that `words` holds as bits."""
    bits = words[categories // 32] >> (categories % 32).astype(np.uint32)
    return (bits & 1).astype(bool)
