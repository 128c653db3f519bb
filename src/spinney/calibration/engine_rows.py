"""Rows that lie on the workers of an engine: who draws from them and counts there.

The engine is told by the module that the type of the rows is from, without importing
anything. What belongs to an engine is loaded when rows of it arrive.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# By the library of the rows. Each module has ``rows_for(model, X)``,
# ``sample(X, n_rows, random_state=...)`` and ``count_disagreements(classifier, X)``.
ENGINES = {
    "dask": "spinney.integrations.dask",
    "dask_expr": "spinney.integrations.dask",
    "pyspark": "spinney.integrations.spark",
}


def engine_of(X: Any) -> Any:
    """Return the module for the engine that holds rows; None if they are in memory."""
    library = type(X).__module__.partition(".")[0]
    return import_module(ENGINES[library]) if library in ENGINES else None
