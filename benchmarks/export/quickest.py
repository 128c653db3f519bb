"""The time of a call from Python. Needs NumPy only: lleaves runs it elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def quickest(answer: Callable[[Any], Any], rows: list[Any]) -> float:
    """Return the microseconds of a call with one row.

    As in C: the quickest of many rounds for a few rows at a time.

    Parameters
    ----------
    answer : callable
        Takes a row.
    rows : list
        The rows.
    """
    for row in rows:  # whatever happens once
        answer(row)
    best = np.full(len(rows) // 20, np.inf)
    for _ in range(40):
        for part in range(len(best)):
            some = rows[20 * part : 20 * part + 20]
            begin = time.perf_counter()
            for row in some:
                answer(row)
            best[part] = min(best[part], time.perf_counter() - begin)
    return float(1e6 * best.sum() / len(rows))
