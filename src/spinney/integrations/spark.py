"""Predictions for Spark data frames, in the Python workers, over Arrow.

The bytes of the model's file are broadcast, and each Python worker loads them once.
Only the columns of the model leave the JVM.

Examples
--------
>>> import spinney.integrations.spark  # doctest: +SKIP
>>> scored = spinney.integrations.spark.predict("model.spinney", df)  # doctest: +SKIP
>>> scored.select("id", "label", "n_evaluated").show()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.integrations import answering, tables
from spinney.integrations.portable import PortableModel
from spinney.integrations.sampling import check_sample_size, seed_from

# Spark's types that a model takes as numbers, and those that need a cast.
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
# (void: all values are missing).
CAST = ("boolean", "decimal", "void")


def predict(
    model: Any, df: Any, *, outputs: Sequence[str] | None = None, prefix: str = ""
) -> Any:
    """Add columns with the predictions to a Spark data frame.

    Parameters
    ----------
    model : fitted classifier of spinney, Forest, trained model, or path
        The model to predict with. The content of its file is broadcast.
    df : pyspark.sql.DataFrame
        Rows. Columns are selected by name if the model has feature names, and must
        otherwise be the columns of the model, in its order.
    outputs : sequence of str, default=None
        Which columns to add: ``"label"``; ``"n_evaluated"``, the number of trees
        evaluated; ``"probability"``, an array of the probabilities of all classes,
        which takes a second evaluation. None for all that the model supports.
    prefix : str, default=""
        Prefix of the names of the new columns.

    Returns
    -------
    scored : pyspark.sql.DataFrame
        All columns of `df`, and the new ones. Lazy.

    Raises
    ------
    InvalidArgumentError
        If columns are missing, hold strings where the model takes numbers, or would be
        overwritten.
    ImportError
        If PySpark is not installed.
    """
    import_spark()
    from pyspark.sql import functions as F

    portable = tables.portable_for(model)
    names = tables.chosen_outputs(portable.model, outputs)
    _check_frame(df)
    tables.check_prefix(prefix)
    there = sorted({prefix + name for name in names} & set(df.columns))
    if there:
        msg = (
            f"There is already a column {there[0]!r}. Drop it, or pass a prefix for "
            "the new columns."
        )
        raise InvalidArgumentError(msg)
    answer = _udf(portable, names, df.sparkSession)
    features = F.struct(*_feature_columns(portable.model, df))
    held = "_spinney_answer"
    scored = df.withColumn(held, answer(features))
    new = [F.col(f"{held}.{name}").alias(prefix + name) for name in names]
    return scored.select(*(F.col(_quoted(name)) for name in df.columns), *new)


def predict_udf(model: Any, *, outputs: Sequence[str] | None = None) -> Any:
    """Return a user-defined function for Spark, which can also be registered for SQL.

    Parameters
    ----------
    model, outputs
        As for `predict`.

    Returns
    -------
    udf : pandas user-defined function of Spark
        Takes the columns of the model, in its order, or one struct that has them by
        name. Returns a struct with the `outputs`. Unlike `predict`, it cannot check
        column types before the job runs.

    Raises
    ------
    InvalidArgumentError
        If there is no active Spark session.
    ImportError
        If PySpark is not installed.
    """
    import_spark()
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        msg = (
            "There is no active Spark session to broadcast the model with. Create one "
            "first: pyspark.sql.SparkSession.builder.getOrCreate()"
        )
        raise InvalidArgumentError(msg)
    portable = tables.portable_for(model)
    return _udf(portable, tables.chosen_outputs(portable.model, outputs), session)


def sample(df: Any, n_rows: int, *, random_state: Any = None) -> Any:
    """Draw rows uniformly at random, without replacement, in one pass.

    `spinney.accelerate` does this if given Spark rows; call it yourself to choose the
    size.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Rows.
    n_rows : int
        How many to draw, 1 or more.
    random_state : int, RandomState instance or None, default=None
        Draws the rows.

    Returns
    -------
    rows : data frame of pandas
        In memory, in random order; all rows of `df` if there are no more than `n_rows`.
    """
    import_spark()
    from pyspark.sql import functions as F

    n_rows = check_sample_size(n_rows)
    _check_frame(df)
    key = "_spinney_key"
    # Each partition keeps the rows with the smallest numbers: no shuffle, one pass.
    numbered = df.withColumn(key, F.rand(seed_from(random_state)))
    return numbered.orderBy(key).limit(n_rows).drop(key).toPandas()


def rows_for(model: Any, df: Any) -> Any:
    """Return rows with the columns that a model takes, before any job runs.

    `spinney.accelerate` does this if given Spark rows.

    Parameters
    ----------
    model : Forest or classifier
        The model that the rows are for.
    df : pyspark.sql.DataFrame
        Rows.

    Returns
    -------
    rows : pyspark.sql.DataFrame
        The same rows with only the columns of the model.

    Raises
    ------
    InvalidArgumentError
        If the rows do not fit the model.
    """
    import_spark()
    _check_frame(df)
    return df.select(*_feature_columns(model, df))


def count_disagreements(classifier: Any, df: Any) -> NDArray[np.int64]:
    """Count on the workers how often a classifier differs from its model.

    `spinney.certify` does this if given Spark rows.

    Parameters
    ----------
    classifier : fitted classifier of spinney, or path
        The classifier and the trained model are both evaluated on all rows.
    df : pyspark.sql.DataFrame
        Rows.

    Returns
    -------
    counts : ndarray of shape (n_classes, 2), dtype=int64
        For each class the number of rows that the model assigns to it, and how many of
        these the classifier assigns to another.
    """
    import_spark()
    portable = tables.portable_for(classifier)
    answering.check_can(portable.model, "predict_model")
    _check_frame(df)
    features = _feature_columns(portable.model, df)
    # By number: Spark cannot map rows of columns that have a dot in their names.
    numbered = df.select(*features).toDF(*map(str, range(len(features))))
    names = answering.columns_to_read(portable.model, list(df.columns))
    held = _broadcast(portable, df.sparkSession)
    per_part = numbered.mapInPandas(
        _counting(held, names), "class int, n_rows bigint, n_disagreements bigint"
    )
    counts = np.zeros((len(portable.model.classes_), 2), dtype=np.int64)
    # A few numbers per partition and class: they are added up here.
    for index, n_rows, n_disagreements in per_part.collect():
        counts[index] += n_rows, n_disagreements
    return counts


# ------------------------------------------------------------------ on the workers


def _udf(portable: PortableModel, names: tuple[str, ...], session: Any) -> Any:
    """Return the user-defined function that predicts with a model."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    held = _broadcast(portable, session)

    def answer(*columns: Any) -> Any:
        return _answers(held.value, columns, names)

    # Spark infers from these annotations that batches come in and go out.
    answer.__annotations__ = {"columns": pd.Series, "return": pd.DataFrame}
    kinds = {
        "label": _label_type(portable.model),
        "n_evaluated": "int",
        "probability": "array<double>",
    }
    return pandas_udf(answer, ", ".join(f"{name} {kinds[name]}" for name in names))


def _answers(
    portable: PortableModel, columns: tuple[Any, ...], names: tuple[str, ...]
) -> Any:
    """Return the predictions for a batch as a data frame."""
    import pandas as pd

    model = portable.model
    if len(columns) == 1 and hasattr(columns[0], "columns"):
        frame = columns[0]  # a struct
        wanted = answering.columns_to_read(model, list(map(str, frame.columns)))
        frame = frame if list(frame.columns) == wanted else frame[wanted]
    else:
        frame = pd.concat(columns, axis=1)
        wanted = answering.feature_names(model) or list(map(str, range(len(columns))))
        if len(wanted) != len(columns):
            msg = (
                f"The function was called with {len(columns)} columns, but the model "
                f"takes {len(wanted)}: pass them in the order of the model, or as one "
                "struct that has them by name."
            )
            raise InvalidArgumentError(msg)
        frame.columns = wanted
    answers = tables.answers(portable, tables.rows_of_frame(model, frame), names)
    return pd.DataFrame(
        {
            name: list(values) if values.ndim == 2 else values
            for name, values in answers.items()
        }
    )


def _counting(held: Any, names: list[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that counts disagreements in the batches of a partition."""

    def count(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        portable = held.value
        model = portable.model
        total = np.zeros((len(model.classes_), 2), dtype=np.int64)
        for frame in frames:
            rows = tables.rows_of_frame(model, frame.set_axis(names, axis=1))
            total += answering.disagreements(portable, rows)
        yield pd.DataFrame(
            {
                "class": np.arange(len(total), dtype=np.int32),
                "n_rows": total[:, 0],
                "n_disagreements": total[:, 1],
            }
        )

    return count


class _Held:
    """Replaces a broadcast variable where there are none."""

    def __init__(self, value: PortableModel) -> None:
        self.value = value


def _broadcast(portable: PortableModel, session: Any) -> Any:
    """Return the object that carries a model to the workers."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return _Held(portable)  # it is pickled with the function
    return session.sparkContext.broadcast(portable)


# ------------------------------------------------------------------ before the job


def import_spark() -> Any:
    """Return the module pyspark, or say how to install it."""
    try:
        import pandas
        import pyarrow
        import pyspark
    except ImportError as error:
        msg = (
            "spinney.integrations.spark needs PySpark, pandas and PyArrow, and "
            f"{error.name} is not installed. Install the extra "
            '"spark": python -m pip install "spinney[spark]"'
        )
        raise ImportError(msg) from error
    del pandas, pyarrow
    return pyspark


def _check_frame(df: Any) -> None:
    is_spark = type(df).__module__.partition(".")[0] == "pyspark"
    if not (is_spark and hasattr(df, "schema") and hasattr(df, "sparkSession")):
        msg = (
            "df must be a data frame of Spark, got "
            f"{type(df).__module__}.{type(df).__qualname__}. spark.createDataFrame(df) "
            "makes one; for rows in memory, use the classifier's own predict."
        )
        raise InvalidArgumentError(msg)


def _feature_columns(model: Any, df: Any) -> list[Any]:
    """Return the columns that a model takes as expressions, or raise."""
    from pyspark.sql import functions as F

    names = answering.columns_to_read(model, list(df.columns))
    kinds = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    others = {
        name: f"values of Spark's type {kinds[name]}"
        for name in names
        if kinds[name] not in NUMBERS and not kinds[name].startswith(CAST)
    }
    answering.refuse_texts(model, names, others)
    return [
        F.col(_quoted(name)).cast("double").alias(name)
        if kinds[name].startswith(CAST)
        else F.col(_quoted(name))
        for name in names
    ]


def _quoted(name: str) -> str:
    """Return the name of a column, which may have a dot in it."""
    return "`" + name.replace("`", "``") + "`"


def _label_type(model: Any) -> str:
    """Return Spark's name for the type of a model's predictions."""
    kind = answering.label_type(model)
    if kind.kind == "O" and all(isinstance(label, str) for label in model.classes_):
        return "string"
    types = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double", "U": "string"}
    if kind.kind not in types:
        msg = (
            f"Spark has no column type for labels of type {kind}. Train the model with "
            "numbers or strings as labels."
        )
        raise InvalidArgumentError(msg)
    return types[kind.kind]
