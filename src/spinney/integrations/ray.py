"""Predictions for Ray datasets, in actors that load the model once.

`Predictor` is a callable class for `ray.data.Dataset.map_batches`; `predict` builds
that call, after checking the columns.

Examples
--------
>>> import ray, spinney.integrations.ray  # doctest: +SKIP
>>> scored = dataset.map_batches(
...     spinney.integrations.ray.Predictor,
...     fn_constructor_args=("model.spinney",),
...     compute=ray.data.ActorPoolStrategy(size=2),
... )  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinney.errors import InvalidArgumentError
from spinney.integrations import answering, tables
from spinney.integrations.portable import PortableModel

# The name of the only column of a dataset made from one array.
ARRAY_COLUMN = "data"


class Predictor:
    """Predicts batches of a Ray dataset; each actor builds one and keeps it.

    Parameters
    ----------
    model : fitted classifier of spinney, Forest, trained model, or path
        The model to predict with. A path must be readable by all actors.
    outputs : sequence of str, default=None
        Which columns to add: ``"label"``; ``"n_evaluated"``, the number of trees
        evaluated; ``"probability"``, the probabilities of all classes, which takes a
        second evaluation. None for all that the model supports.
    prefix : str, default=""
        Prefix of the names of the new columns.
    columns : sequence of str, default=None
        For a model without feature names: the columns it takes, in its order. None for
        all columns of a batch, in the order of the batch, which may differ from block
        to block. `predict` passes those of the schema.

    Raises
    ------
    InvalidArgumentError
        If the model does not support one of the outputs.
    """

    def __init__(
        self,
        model: Any,
        *,
        outputs: Sequence[str] | None = None,
        prefix: str = "",
        columns: Sequence[str] | None = None,
    ) -> None:
        portable = model if isinstance(model, PortableModel) else PortableModel(model)
        self._portable = portable
        self._outputs = tables.chosen_outputs(portable.model, outputs)
        self._prefix = tables.check_prefix(prefix)
        self._columns = None if columns is None else list(columns)

    def __call__(self, batch: Any) -> Any:
        """Return a batch with the predictions added.

        Parameters
        ----------
        batch : dict of arrays, or data frame of pandas
            Rows, as `map_batches` passes them with the batch format ``"numpy"`` or
            ``"pandas"``: the columns of the model, and others; or the one column
            ``data`` of a dataset that was made from an array.

        Returns
        -------
        batch : dict of arrays, or data frame of pandas
            The batch, with the new columns.
        """
        model = self._portable.model
        rows = _rows_of(model, batch, self._columns)
        answers = tables.answers(self._portable, rows, self._outputs)
        _refuse_taken(batch, [self._prefix + name for name in answers])
        if isinstance(batch, dict):
            new = {self._prefix + name: values for name, values in answers.items()}
            return {**batch, **new}
        return batch.assign(
            **{
                self._prefix + name: list(values) if values.ndim == 2 else values
                for name, values in answers.items()
            }
        )


def predict(
    model: Any,
    dataset: Any,
    *,
    outputs: Sequence[str] | None = None,
    prefix: str = "",
    concurrency: Any = 2,
    **options: Any,
) -> Any:
    """Add columns with the predictions to a Ray dataset.

    Parameters
    ----------
    model : fitted classifier of spinney, Forest, trained model, or path
        The model to predict with. The content of its file is sent to the actors.
    dataset : ray.data.Dataset
        Rows.
    outputs, prefix
        As for `Predictor`.
    concurrency : int or tuple, default=2
        Number of actors, or the least and the largest number of them.
    **options : object
        Further arguments of `map_batches`: ``batch_size``, ``num_cpus``, and so on;
        with ``compute``, `concurrency` is not used.

    Returns
    -------
    scored : ray.data.Dataset
        Lazy.

    Raises
    ------
    InvalidArgumentError
        If columns are missing, hold strings where the model takes numbers, or would be
        overwritten.
    ImportError
        If Ray is not installed.
    """
    ray = import_ray()
    portable = tables.portable_for(model)
    names = tables.chosen_outputs(portable.model, outputs)
    tables.check_prefix(prefix)
    columns = _columns_of(portable.model, dataset, [prefix + name for name in names])
    # Ray's own `concurrency` is deprecated.
    if "compute" not in options:
        sizes = concurrency if isinstance(concurrency, tuple) else (concurrency,) * 2
        least, most = sizes
        options["compute"] = ray.data.ActorPoolStrategy(min_size=least, max_size=most)
    return dataset.map_batches(
        Predictor,
        fn_constructor_args=(portable,),
        fn_constructor_kwargs={"outputs": names, "prefix": prefix, "columns": columns},
        **options,
    )


def import_ray() -> Any:
    """Return the module ray, or say how to install it."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        msg = (
            "spinney.integrations.ray needs Ray Data, which is not installed. Install "
            'the extra "ray": python -m pip install "spinney[ray]"'
        )
        raise ImportError(msg) from error
    return ray


def _columns_of(model: Any, dataset: Any, new: list[str]) -> list[str] | None:
    """Return the columns of a dataset that a model takes, or raise if they do not fit.

    None if there is no schema, or if the only column holds arrays.
    """
    if not hasattr(dataset, "map_batches") or not hasattr(dataset, "schema"):
        msg = (
            "dataset must be a dataset of Ray, got "
            f"{type(dataset).__module__}.{type(dataset).__qualname__}. "
            "ray.data.from_numpy(X) and ray.data.from_pandas(X) make one; for rows in "
            "memory, use the classifier's own predict."
        )
        raise InvalidArgumentError(msg)
    schema = dataset.schema()
    if schema is None:  # without rows there is no schema
        return None
    given = list(schema.names)
    _refuse_taken(given, new)
    if given == [ARRAY_COLUMN]:
        _check_width(model, schema.types[0])
        return None
    names = answering.columns_to_read(model, given)
    kinds = {name: str(kind) for name, kind in zip(given, schema.types, strict=True)}
    # null: all values are missing.
    numbers = ("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null")
    others = {
        name: f"values of type {kinds[name]}"
        for name in names
        if not kinds[name].startswith(numbers)
    }
    answering.refuse_texts(model, names, others)
    return names


def _check_width(model: Any, kind: Any) -> None:
    """Raise if arrays in a column have the wrong shape for a model, if it is known."""
    shape = getattr(kind, "shape", None)
    n_features = answering.width(model)
    if isinstance(shape, tuple) and shape != (n_features,):
        msg = (
            f"The rows of the dataset have the shape {shape}, but the model was fitted "
            f"on {n_features} columns. Pass the same columns, in the same order."
        )
        raise InvalidArgumentError(msg)


def _refuse_taken(batch: Any, new: list[str]) -> None:
    """Raise if new columns would replace existing ones."""
    there = [name for name in new if name in batch]
    if there:
        msg = (
            f"There is already a column {there[0]!r}. Drop it, or pass a prefix for "
            "the new columns."
        )
        raise InvalidArgumentError(msg)


def _named(columns: list[str] | None, given: list[str]) -> list[str] | None:
    """Return the columns to take from a batch, or raise if it lacks one of them."""
    missing = [name for name in columns or () if name not in given]
    if missing:
        msg = (
            f"A batch lacks the columns {missing}, which other blocks of the dataset "
            f"have; it has {given}. Give all blocks the same columns."
        )
        raise InvalidArgumentError(msg)
    return columns


def _rows_of(model: Any, batch: Any, columns: list[str] | None) -> Any:
    """Return the rows of a batch as a model takes them."""
    if not isinstance(batch, dict) and not hasattr(batch, "iloc"):
        msg = (
            "Batches must be dicts of arrays or data frames of pandas, got "
            f'{type(batch)!r}. Pass batch_format="numpy" or "pandas" to map_batches.'
        )
        raise InvalidArgumentError(msg)
    given = [str(name) for name in batch]
    if isinstance(batch, dict) and given == [ARRAY_COLUMN]:
        return batch[ARRAY_COLUMN]
    names = _named(columns, given) or answering.columns_to_read(model, given)
    if not isinstance(batch, dict):
        return tables.rows_of_frame(model, batch[names])
    if not tables.needs_names(model):
        # In one type that holds all of them exactly.
        return np.stack([np.asarray(batch[name]) for name in names], axis=1)
    import pandas as pd

    return pd.DataFrame({name: batch[name] for name in names})
