"""Predictions for dask arrays and data frames, lazily, on the workers.

Results are lazy. The model is one key of the task graph, so each worker receives it
once and the scheduler can send it to new workers; within a worker it is loaded once,
and its kernels come from the kernel cache of the machine.

Examples
--------
>>> import spinney.integrations.dask  # doctest: +SKIP
>>> labels = spinney.integrations.dask.predict("model.spinney", X)  # doctest: +SKIP
>>> labels.compute()  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.integrations import answering, tables
from spinney.integrations.portable import PortableModel
from spinney.integrations.sampling import (
    check_sample_size,
    draw_from_part,
    merge_draws,
    merged_in_steps,
    seed_from,
)


def predict(model: Any, X: Any) -> Any:
    """Predict rows on the workers of Dask.

    Parameters
    ----------
    model : fitted classifier of spinney, Forest, trained model, or path
        The model to predict with. Preferably the path of a file written by
        `spinney.save` that all workers can read: they map it into memory. Otherwise the
        content of such a file is sent to each worker once.
    X : dask array or dask data frame of shape (n_rows, n_features)
        Rows. An array has all columns in one chunk; chunk sizes along rows may be
        unknown. Columns of a data frame are selected by name if the model has feature
        names, and only these are read.

    Returns
    -------
    labels : dask array or dask series
        Lazy, chunked as `X`; a series has the index of `X`.

    Raises
    ------
    InvalidArgumentError
        If `X` is chunked along columns, lacks columns or holds strings where the model
        takes numbers.
    ImportError
        If Dask is not installed.
    """
    job = _Job(model, X, "predict")
    return job.series("label", job.label_type, _labels)


def predict_counted(model: Any, X: Any) -> tuple[Any, Any]:
    """Predict rows on the workers of Dask, and count the trees evaluated.

    Parameters
    ----------
    model, X
        As for `predict`. A Forest and a trained model evaluate all trees.

    Returns
    -------
    labels, n_evaluated : dask arrays or dask series
        Lazy. Compute both in one call, ``dask.compute(labels, n_evaluated)``, so that
        each row is evaluated once.
    """
    job = _Job(model, X, "predict_counted")
    both = job.table(
        {"label": job.label_type, "n_evaluated": answering.N_EVALUATED}, _counted
    )
    return both["label"], both["n_evaluated"]


def predict_proba(model: Any, X: Any) -> Any:
    """Return the probabilities of all classes, from the workers of Dask.

    Parameters
    ----------
    model, X
        As for `predict`.

    Returns
    -------
    probabilities : dask array or dask data frame
        Lazy. An array of shape (n_rows, n_classes), or a data frame with a column for
        each class, named after it.
    """
    job = _Job(model, X, "predict_proba")
    return job.matrix(answering.probability_names(job.model), _probabilities)


def sample(X: Any, n_rows: int, *, random_state: Any = None) -> Any:
    """Draw rows uniformly at random, without replacement, in one pass.

    `spinney.accelerate` does this if given dask rows; call it yourself to choose the
    size.

    Parameters
    ----------
    X : dask array or dask data frame
        Rows; their number may be unknown.
    n_rows : int
        How many to draw, 1 or more. Each worker keeps at most this many per partition.
    random_state : int, RandomState instance or None, default=None
        Draws the rows. With the same int and the same partitions, the same rows.

    Returns
    -------
    rows : ndarray or data frame of pandas
        In memory, in random order; all rows of `X` if there are no more than `n_rows`.
    """
    delayed = import_dask().delayed
    n_rows = check_sample_size(n_rows)
    seed = seed_from(random_state)
    columns = None
    if is_frame(X):
        columns = [str(name) for name in X.columns]
    else:
        X = _checked(X)
    drawn = [
        delayed(_draw_from_part)(part, number, seed, n_rows, columns)
        for number, part in enumerate(np.ravel(X.to_delayed()))
    ]
    merged = merged_in_steps(drawn, lambda some: delayed(merge_draws)(some, n_rows))
    _, rows = merged.compute()
    return rows


def rows_for(model: Any, X: Any) -> Any:
    """Return rows with the columns that a model takes, before any are computed.

    `spinney.accelerate` does this if given dask rows.

    Parameters
    ----------
    model : Forest or classifier
        The model that the rows are for.
    X : dask array or dask data frame
        Rows.

    Returns
    -------
    rows : dask array or dask data frame
        The same rows; of a data frame only the columns of the model.

    Raises
    ------
    InvalidArgumentError
        If the rows do not fit the model.
    """
    if is_frame(X):
        return _checked_frame(model, X)[0]
    _check_width(model, _checked(X))
    return X


def count_disagreements(classifier: Any, X: Any) -> NDArray[np.int64]:
    """Count on the workers how often a classifier differs from its model.

    `spinney.certify` does this if given dask rows.

    Parameters
    ----------
    classifier : fitted classifier of spinney, or path
        The classifier and the trained model are both evaluated on all rows.
    X : dask array or dask data frame
        Rows.

    Returns
    -------
    counts : ndarray of shape (n_classes, 2), dtype=int64
        For each class the number of rows that the model assigns to it, and how many of
        these the classifier assigns to another.
    """
    job = _Job(classifier, X, "predict_model")
    delayed = import_dask().delayed
    count = _counts_of if job.is_frame else answering.disagreements
    counts = [
        delayed(job.on_part)(part, job.key, job.columns, count)
        for part in np.ravel(job.X.to_delayed())
    ]
    total = merged_in_steps(counts, lambda some: delayed(_added)(some))
    counted: NDArray[np.int64] = total.compute()
    return counted


def _added(counts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.sum(counts, axis=0)


class _Job:
    """Dask rows and a model, checked to fit together; builds lazy results."""

    def __init__(self, model: Any, X: Any, method: str) -> None:
        self._dask = import_dask()
        self.portable = PortableModel(model)
        self.model = self.portable.model
        answering.check_can(self.model, method)
        self.label_type = answering.label_type(self.model)
        self.is_frame = is_frame(X)
        self.columns: list[str] = []
        if self.is_frame:
            self.X, self.columns = _checked_frame(self.model, X)
        else:
            self.X = _checked(X)
            _check_width(self.model, X)
        # One key of the graph for all tasks, which graph optimisation does not inline.
        name = f"spinney-model-{self.portable.digest[:32]}"
        self.key = self._dask.delayed(self.portable, pure=True, name=name)
        self.on_part = _of_partition if self.is_frame else _of_block

    def series(self, name: str, kind: np.dtype, answer: Callable[..., Any]) -> Any:
        """Return one value for each row."""
        if self.is_frame:
            meta = _as_series(np.empty(0, dtype=kind), name, None)
            return self._of_partitions(_series_of, meta, answer, name)
        return self._of_blocks(answer, np.empty(0, dtype=kind), drop_axis=1)

    def table(self, kinds: dict[str, np.dtype], answer: Callable[..., Any]) -> Any:
        """Return several values for each row, by name."""
        nothing = np.empty(0, dtype=list(kinds.items()))
        if self.is_frame:
            meta = _as_frame({name: nothing[name] for name in kinds}, None)
            return self._of_partitions(_table_of, meta, answer)
        return self._of_blocks(answer, nothing, drop_axis=1)

    def matrix(self, names: Any, answer: Callable[..., Any]) -> Any:
        """Return a value for each row and class."""
        nothing = np.empty((0, len(names)), dtype=answering.PROBABILITY)
        if self.is_frame:
            meta = _matrix_frame(nothing, names, None)
            return self._of_partitions(_matrix_of, meta, answer)
        chunks = (self.X.chunks[0], (len(names),))
        return self._of_blocks(answer, nothing, chunks=chunks)

    def _of_blocks(self, answer: Callable[..., Any], meta: Any, **options: Any) -> Any:
        import dask.array as da

        return da.map_blocks(
            _of_block,
            self.X,
            self.key,
            None,
            answer,
            dtype=meta.dtype,
            meta=meta,
            **options,
        )

    def _of_partitions(self, make: Callable[..., Any], meta: Any, *rest: Any) -> Any:
        return self.X.map_partitions(
            _of_partition, self.key, self.columns, make, *rest, meta=meta
        )


# ------------------------------------------------------------------ on the workers


def _labels(portable: PortableModel, X: Any) -> Any:
    return answering.labels(portable, X)


def _counted(portable: PortableModel, X: Any) -> Any:
    labels, n_evaluated = answering.counted(portable, X)
    both = np.empty(
        len(labels), dtype=[("label", labels.dtype), ("n_evaluated", n_evaluated.dtype)]
    )
    both["label"], both["n_evaluated"] = labels, n_evaluated
    return both


def _probabilities(portable: PortableModel, X: Any) -> Any:
    return answering.probabilities(portable, X)


def _of_block(
    block: Any, portable: PortableModel, columns: Any, answer: Callable[..., Any]
) -> Any:
    """Predict one block of an array, whose width may differ from its metadata."""
    n_features = answering.width(portable.model)
    if block.ndim != 2 or block.shape[1] != n_features:
        msg = (
            f"A block of the dask array has the shape {block.shape}, but the model "
            f"takes {n_features} columns. The array was built with a wrong meta or "
            "wrong chunks: make all blocks equally wide."
        )
        raise InvalidArgumentError(msg)
    return answer(portable, block)


def _of_partition(
    part: Any,
    portable: PortableModel,
    columns: list[str],
    make: Callable[..., Any],
    *rest: Any,
) -> Any:
    """Predict one partition of a data frame, whose columns may differ from the meta."""
    return make(portable, _in_order(part, columns), *rest)


def _draw_from_part(
    part: Any, number: int, seed: int, n_rows: int, columns: list[str] | None
) -> Any:
    """Draw from one partition; of a data frame, one with the columns of its meta."""
    if columns is not None:
        part = _in_order(part, columns)
    return draw_from_part(part, number, seed, n_rows)


def _in_order(part: Any, columns: list[str]) -> Any:
    """Return a partition with its columns in this order, or raise if it lacks one."""
    missing = [name for name in columns if name not in set(map(str, part.columns))]
    if missing:
        msg = (
            f"A partition of the dask data frame lacks the columns {missing}, which "
            "its meta has. Give all partitions the same columns: "
            "X.map_partitions(lambda part: part.reindex(columns=X.columns), meta=X), "
            "for example."
        )
        raise InvalidArgumentError(msg)
    if list(map(str, part.columns)) != columns:
        called = {str(name): name for name in part.columns}
        part = part[[called[name] for name in columns]]
    return part


def _series_of(
    portable: PortableModel, part: Any, answer: Callable[..., Any], name: str
) -> Any:
    return _as_series(answer(portable, _rows(portable, part)), name, part.index)


def _table_of(portable: PortableModel, part: Any, answer: Callable[..., Any]) -> Any:
    values = answer(portable, _rows(portable, part))
    return _as_frame({name: values[name] for name in values.dtype.names}, part.index)


def _matrix_of(portable: PortableModel, part: Any, answer: Callable[..., Any]) -> Any:
    shares = answer(portable, _rows(portable, part))
    names = answering.probability_names(portable.model)
    return _matrix_frame(shares, names, part.index)


def _counts_of(portable: PortableModel, part: Any) -> Any:
    return answering.disagreements(portable, _rows(portable, part))


def _rows(portable: PortableModel, part: Any) -> Any:
    """Return a partition as the model takes it: without names if the model has none."""
    return tables.rows_of_frame(portable.model, part)


def _as_series(values: Any, name: str, index: Any) -> Any:
    import pandas as pd

    # NumPy's string types have a length; those of pandas do not.
    kind = "str" if values.dtype.kind == "U" else values.dtype
    return pd.Series(values, index=index, name=name, dtype=kind)


def _as_frame(columns: dict[str, Any], index: Any) -> Any:
    import pandas as pd

    parts = {name: _as_series(part, name, index) for name, part in columns.items()}
    return pd.DataFrame(parts, index=index)


def _matrix_frame(values: Any, names: Any, index: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(values, columns=[str(name) for name in names], index=index)


# ------------------------------------------------------------------ before the job


def import_dask() -> Any:
    """Return the module dask, or say how to install it."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        msg = (
            "spinney.integrations.dask needs Dask, which is not installed. Install the "
            'extra "dask": python -m pip install "spinney[dask]"'
        )
        raise ImportError(msg) from error
    return dask


def is_frame(X: Any) -> bool:
    """Whether dask rows are a data frame, not an array; raise if they are neither."""
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        kind = type(X)  # a Delayed has every attribute, its class has not
        is_table = hasattr(kind, "map_partitions") and hasattr(kind, "columns")
        if is_table and X.ndim == 2:  # not a series
            return True
        if hasattr(kind, "map_blocks") and hasattr(kind, "chunks"):
            return False
    msg = (
        "X must be a dask array or a dask data frame, got "
        f"{type(X).__module__}.{type(X).__qualname__}. dask.array.from_array(X) and "
        "dask.dataframe.from_pandas(X) make one; for rows in memory, use the "
        "classifier's own predict."
    )
    raise InvalidArgumentError(msg)


def _checked(X: Any) -> Any:
    """Return a dask array that can be predicted block by block, or raise."""
    if X.ndim != 2:
        msg = (
            f"X must have two dimensions (rows, features), got {X.ndim}. Write "
            "X.reshape(1, -1) for a single row."
        )
        raise InvalidArgumentError(msg)
    if X.numblocks[1] != 1:
        msg = (
            f"X is chunked along columns: {X.numblocks[1]} chunks of at most "
            f"{max(X.chunks[1])} columns, but a tree may compare any column. Call "
            'X.rechunk({0: "auto", 1: -1}) first.'
        )
        raise InvalidArgumentError(msg)
    if X.dtype.kind not in "fiub":
        msg = (
            f"X must hold real numbers, got a dask array of dtype {X.dtype}. Encode "
            "strings, dates and objects as numbers, as in training."
        )
        raise InvalidArgumentError(msg)
    return X


def _check_width(model: Any, X: Any) -> None:
    """Raise if a dask array has the wrong number of columns, if that is known."""
    n_features = answering.width(model)
    if not math.isnan(X.shape[1]) and X.shape[1] != n_features:
        msg = (
            f"X has {X.shape[1]} columns, but the model was fitted on {n_features}. "
            "Pass the same columns, in the same order."
        )
        raise InvalidArgumentError(msg)


def _checked_frame(model: Any, X: Any) -> tuple[Any, list[str]]:
    """Return a dask data frame with the model's columns only, and their names."""
    columns = answering.columns_to_read(model, [str(name) for name in X.columns])
    called = {str(name): name for name in X.columns}
    # Columns that are not needed are not read. Otherwise partitions are left unchanged,
    # so that the worker can say what is wrong with one.
    chosen = X
    if len(columns) < len(called):
        chosen = X[[called[name] for name in columns]]
    others = {
        str(name): f"values of dtype {kind}"
        for name, kind in chosen.dtypes.items()
        # Objects may be numbers and None; the workers check.
        if kind.kind not in "fiub" and kind != np.dtype(object)
    }
    answering.refuse_texts(model, columns, others)
    return chosen, columns
