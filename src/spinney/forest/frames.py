"""Data frames of any library, as far as rows are made of them; through narwhals.

Frames of pandas, Polars and PyArrow are taken as they are. Whatever else narwhals knows
or speaks the Arrow PyCapsule interface (record batches, relations of DuckDB, tables of
nanoarrow) becomes one of these first. narwhals is imported when the first data frame
arrives; the library of a frame never is, since it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from spinney.errors import InvalidArgumentError
from spinney.forest.frame_kinds import ArrowFrame, Frame, PandasFrame, PolarsFrame

# What only a data frame of the library has: neither a column, nor a batch, nor rows
# that are still to be computed.
_KNOWN: dict[str, tuple[str, type[Frame]]] = {
    "pandas": ("itertuples", PandasFrame),
    "polars": ("height", PolarsFrame),
    "pyarrow": ("join", ArrowFrame),
}
# What data frames of other libraries have, and arrays have not.
_MARKS = ("columns", "column_names", "__arrow_c_stream__", "__arrow_c_array__")
# Rows of these are predicted on their workers.
_ENGINES = {"dask": "dask", "dask_expr": "dask", "pyspark": "spark", "ray": "ray"}


def frame_of(X: Any) -> Frame | None:
    """Return what is needed of a data frame, None if `X` is none.

    Parameters
    ----------
    X : object
        A data frame of pandas, Polars, PyArrow or another library that narwhals knows;
        anything that speaks the Arrow PyCapsule interface; or something else.

    Raises
    ------
    InvalidArgumentError
        If it is one whose rows are not in memory.
    ImportError
        If it speaks Arrow, and no library is installed that does.
    """
    if type(X) is np.ndarray or isinstance(X, (list, tuple)):
        return None
    if isinstance(X, Frame):
        return X
    native = as_known_frame(X)
    known = _class_of(native)
    return None if known is None else known(native)


def in_order_of(X: Any, names: Sequence[str] | None) -> Any:
    """Return a data frame with its columns in the order of a model; other rows as is.

    Parameters
    ----------
    X : object
        Anything.
    names : sequence of str or None
        As for `Frame.in_order_of`.

    Returns
    -------
    X : object
        A data frame as `as_known_frame` returns it; else `X` itself.

    Raises
    ------
    InvalidArgumentError
        If two columns of a data frame have the same name. scikit-learn, which compares
        names after this, does not take such a frame.
    """
    frame = frame_of(X)
    if frame is None:
        return X
    frame.check_names_differ()
    return frame.in_order_of(names).native


def rows_at(X: Any, index: Any) -> Any:
    """Return some of the rows of a table, as a table of the same kind.

    Parameters
    ----------
    X : data frame, array, sparse array or list
        The rows.
    index : slice, list of int or ndarray of int or bool
        Which of them.
    """
    if _class_of(X) is ArrowFrame:  # scikit-learn takes rows of them since 1.7
        return ArrowFrame(X).rows(index).native
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, index)


def is_frame(X: Any) -> bool:
    """Whether something is a data frame of pandas, Polars or PyArrow."""
    return _class_of(X) is not None


def _class_of(X: Any) -> type[Frame] | None:
    return _class_for(type(X))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _class_for(kind: Any) -> type[Frame] | None:
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        if library in _KNOWN and hasattr(kind, _KNOWN[library][0]):
            return _KNOWN[library][1]
    return None


def as_known_frame(X: Any) -> Any:
    """Return a data frame of another library as one that scikit-learn knows.

    A stream can be read once, so this is done once, before anything else.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    X : object
        For what speaks Arrow or is known to narwhals a table of PyArrow, or a frame of
        Polars or pandas if that is not installed; else `X` itself.
    """
    kind = type(X)
    if is_frame(X) or not any(hasattr(kind, mark) for mark in _MARKS):
        return X
    library = kind.__module__.partition(".")[0]
    if library in _ENGINES:
        msg = (
            f"X is a data frame of {library}, whose rows are not in memory. "
            f"spinney.integrations.{_ENGINES[library]} evaluates them on the workers; "
            "spinney.accelerate and spinney.certify take "
        )
        # Ray has no sampling and counting of ours.
        sample = "a sample, X.random_sample(0.01).to_pandas() for example."
        msg += sample if library == "ray" else "it as it is."
        raise InvalidArgumentError(msg)
    import narwhals as nw

    known = nw.from_native(X, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series):
        return X
    if isinstance(known, nw.LazyFrame):
        known = known.collect()
    if isinstance(known, nw.DataFrame):
        native = known.to_native()
        return native if is_frame(native) else known.to_arrow()
    speaks_arrow = any(hasattr(kind, mark) for mark in _MARKS[2:])
    return _from_arrow(X) if speaks_arrow else X


def _from_arrow(X: Any) -> Any:
    """Return what speaks Arrow as a data frame; a column of it as it is."""
    library: Any = next((name for name in reversed(_KNOWN) if find_spec(name)), None)
    is_stream = hasattr(X, "__arrow_c_stream__")
    if library is None or (library != "pyarrow" and not is_stream):
        msg = (
            f"X is a {type(X).__module__}.{type(X).__qualname__}, which exports Arrow "
            "data; reading it needs PyArrow: python -m pip install pyarrow"
        )
        raise ImportError(msg)
    try:
        if library != "pyarrow":
            import narwhals as nw

            return nw.from_arrow(X, backend=library).to_native()
        import pyarrow as pa

        return pa.table(X)  # names may occur twice, and narwhals takes none of these
    except ValueError:  # not of a table
        return X
