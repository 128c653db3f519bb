"""Uniform random samples of partitioned rows, drawn in one pass.

Every row gets a random number of 64 bits, and the rows with the smallest numbers are
the sample, so every subset of that size is equally likely. Each partition keeps its
smallest numbers, and the smallest of these are the smallest of all: partitions are read
once, wherever they are, and merged in any order. The numbers depend on the seed and on
the position of the partition, so a partition that is computed again gives the same
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError

# Rows of a partition with the random number of each.
Drawn = tuple[NDArray[np.uint64], Any]


def check_sample_size(n_rows: Any) -> int:
    """Return how many rows to draw as an int, or raise."""
    is_integer = isinstance(n_rows, (int, np.integer)) and not isinstance(n_rows, bool)
    if not is_integer or n_rows < 1:
        msg = f"n_rows must be an integer, 1 or more, got {n_rows!r}."
        raise InvalidArgumentError(msg)
    return int(n_rows)


def seed_from(random_state: Any) -> int:
    """Return a seed that can be sent to workers, drawn from a random state."""
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def draw_from_part(part: Any, number: int, seed: int, n_rows: int) -> Drawn:
    """Return the rows of one partition that may be in the sample.

    Parameters
    ----------
    part : array or data frame of pandas
        Rows.
    number : int
        Position of the partition among all partitions.
    seed : int
        The same for all partitions.
    n_rows : int
        Size of the sample.
    """
    rng = np.random.default_rng([seed, number])
    keys = rng.integers(2**64, size=part.shape[0], dtype=np.uint64, endpoint=False)
    return _smallest(keys, part, n_rows)


def merge_draws(draws: Sequence[Drawn], n_rows: int) -> Drawn:
    """Return the rows of several partitions that may be in the sample."""
    keys = np.concatenate([keys for keys, _ in draws])
    return _smallest(keys, _stacked([rows for _, rows in draws]), n_rows)


def merged_in_steps(
    draws: list[Any], merge: Callable[[list[Any]], Any], fan_in: int = 8
) -> Any:
    """Merge partitions a few at a time, until one is left.

    Parameters
    ----------
    draws : list
        Partitions, or lazy stand-ins for them.
    merge : callable
        Merges a list of partitions.
    fan_in : int, default=8
        How many partitions are merged at a time.
    """
    while len(draws) > 1:
        draws = [
            merge(draws[start : start + fan_in])
            for start in range(0, len(draws), fan_in)
        ]
    return draws[0]


def _smallest(keys: NDArray[np.uint64], rows: Any, n_rows: int) -> Drawn:
    """Return the rows with the smallest numbers, in the order of the numbers."""
    if len(keys) > n_rows:
        chosen = np.argpartition(keys, n_rows - 1)[:n_rows]
        chosen = chosen[np.argsort(keys[chosen])]
    else:
        chosen = np.argsort(keys)
    taken = rows.iloc[chosen] if hasattr(rows, "iloc") else rows[chosen]
    return keys[chosen], taken


def _stacked(parts: list[Any]) -> Any:
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        # An empty partition may have lost its types.
        return pd.concat([part for part in parts if len(part)] or parts[:1])
    return np.concatenate(parts)
