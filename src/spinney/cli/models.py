"""Models and labelled rows in files, as the commands take them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from spinney.cli.category_columns import CategoryColumns, category_columns
from spinney.cli.column_names import check_columns
from spinney.cli.outputs import check_extra
from spinney.cli.tables import Table, check_table
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.persistence.container import decode
from spinney.persistence.fields import texts_from_arrays
from spinney.persistence.steps import steps_to_arrays
from spinney.persistence.store import load
from spinney.readers import read_model
from spinney.readers.wrapped import as_pipeline, names_of_steps, parted

Model = Annotated[
    Path,
    typer.Argument(
        help="Model file: LightGBM, XGBoost, CatBoost, spinney, skops; with --trust "
        "also a pickle.",
        metavar="MODEL",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(
        help="Rows: CSV, Parquet, Arrow or NPZ.", metavar="DATA", show_default=False
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column with the labels; in NPZ files y, if not given."),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Load pickles too, which can run any code.", metavar=""
    ),
]

PICKLES = (".pkl", ".pickle", ".joblib")
# Trees of scikit-learn, which skops does not vouch for: their own prediction follows
# the indices in them without looking. Read, they become a Forest, which checks them.
ONLY_READ = {
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
}
# What follows the eight bytes of the length of the header.
OWN_BEGINNING = b'{"__metadata__":'
# A larger file takes too long to be read twice.
MOST_BYTES_READ_TWICE = 100_000_000


def check_inputs(
    model: str | os.PathLike[str], *tables: str | os.PathLike[str] | None, trust: bool
) -> None:
    """Raise if a file cannot be read, before anything that takes time is loaded.

    Parameters
    ----------
    model : path
        The model.
    *tables : path or None
        Tables; None is no file.
    trust : bool
        As for `load_model`.
    """
    if not Path(model).is_file():
        read_model(model)  # it says what is wrong with the path
    _refuse_untrusted(model, trust)
    for path in tables:
        if path is not None:
            check_table(path)


def load_model(path: str | os.PathLike[str], *, trust: bool) -> Any:
    """Return the model in a file: a fitted estimator, a Forest or a classifier.

    Parameters
    ----------
    path : path
        A file of LightGBM, XGBoost, CatBoost or spinney; a skops file; or, with
        `trust`, a pickle or joblib file.
    trust : bool
        Whether code in the file may be run: loading a pickle does.

    Returns
    -------
    model : object
        What `spinney.read_model` takes.

    Raises
    ------
    UnsupportedModelError
        If the file is a pickle and not trusted, or no model at all.
    """
    name = Path(path).name.lower()
    if name.endswith(PICKLES):
        return _unpickled(path, trust)
    if name.endswith(".skops"):
        return _from_skops(path, trust)
    return read_model(path)


def load_anything(path: str | os.PathLike[str], *, trust: bool) -> Any:
    """Return what is in a file: all that `load_model` knows, and our classifiers.

    Parameters
    ----------
    path : path
        A file that `spinney.save` has written, or one that `load_model` takes.
    trust : bool
        Whether code in the file may be run.

    Returns
    -------
    thing : object
        A fitted estimator, a Forest, or a classifier of spinney.
    """
    return load(path) if is_own_file(path) else load_model(path, trust=trust)


def is_own_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as those do that `spinney.save` writes."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(len(OWN_BEGINNING) + 8)
    return head[8:] == OWN_BEGINNING


def check_table_of_own(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str],
    target: str | None,
    keep: tuple[str, ...],
) -> None:
    """Raise if a table lacks columns of a model, before what loads it is imported.

    Parameters
    ----------
    path : path
        The model. Only files of spinney are looked into.
    data : path
        The table.
    target, keep
        As for `Table`.
    """
    if not is_own_file(path) or Path(path).stat().st_size > MOST_BYTES_READ_TWICE:
        return
    try:
        parts = decode(np.fromfile(path, dtype=np.uint8), repr(str(path)))
        names = texts_from_arrays("columns", parts.arrays)
        n_features = parts.settings.get("n_columns")
        if n_features is None:  # no steps before the forest, which takes other columns
            names = names or texts_from_arrays("forest.feature_names", parts.arrays)
            n_features = parts.settings["forest"]["n_features"]
    except (KeyError, TypeError, ValueError, OSError):  # loading it tells what is wrong
        return
    Table(data, target, names, n_features, needs_target=False, keep=keep).check()


def load_whole_model(path: str | os.PathLike[str], *, trust: bool) -> Any:
    """Return the model in a file, unless it could not be saved again as a whole.

    Parameters
    ----------
    path, trust
        As for `load_model`.

    Returns
    -------
    model : object
        What `load_model` returns.

    Raises
    ------
    UnsupportedModelError
        If the file holds a pipeline with steps that are not saved without pickle.
    """
    trained = load_model(path, trust=trust)
    steps, model = parted(trained)
    if steps:
        try:
            steps_to_arrays("steps", as_pipeline(steps))
        except (TypeError, ValueError) as error:
            names = ", ".join([*names_of_steps(steps), type(model).__name__])
            msg = f"{str(path)!r} is a pipeline ({names}). {error}"
            raise UnsupportedModelError(msg) from error
    return trained


def _refuse_untrusted(path: str | os.PathLike[str], trust: bool) -> None:
    """Raise if a file is a pickle and may not be loaded."""
    if trust or not Path(path).name.lower().endswith(PICKLES):
        return
    msg = (
        f"{str(path)!r} is a pickle, and loading a pickle runs whatever code is in "
        "it.\nHint: add --trust if it comes from a source you trust."
    )
    raise UnsupportedModelError(msg)


def _unpickled(path: str | os.PathLike[str], trust: bool) -> Any:
    if not Path(path).is_file():
        return read_model(path)
    _refuse_untrusted(path, trust)
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        msg = (
            f"{str(path)!r} cannot be loaded: {type(error).__name__}: {error}. Was it "
            "written with the same versions of the libraries?"
        )
        raise UnsupportedModelError(msg) from error


def _from_skops(path: str | os.PathLike[str], trust: bool) -> Any:
    if not Path(path).is_file():
        return read_model(path)
    check_extra(f"Reading {str(path)!r}", "skops", "skops")
    from skops import io

    try:
        unknown = io.get_untrusted_types(file=path)
        if trust or set(unknown) <= ONLY_READ:
            model = io.load(path, trusted=unknown)
            if trust or not unknown:
                return model
            if not parted(model).steps:
                return read_model(model)
    except UnsupportedModelError:
        raise
    except Exception as error:
        msg = (
            f"{str(path)!r} cannot be loaded: {type(error).__name__}: {error}. Was it "
            "written by skops, with the same versions of the libraries?"
        )
        raise UnsupportedModelError(msg) from error
    msg = (
        f"{str(path)!r} holds types that skops does not know to be safe: "
        f"{', '.join(unknown[:5])}.\nHint: add --trust if it comes from somebody "
        "you trust."
    )
    raise UnsupportedModelError(msg)


def check_target(path: str | os.PathLike[str], target: str | None) -> None:
    """Raise if a table has no labels, before anything that takes time is loaded.

    Parameters
    ----------
    path : path
        The table.
    target : str or None
        Name of the column with the labels.
    """
    # Only arrays of an NPZ file are labels without having been named so.
    if target is None and not str(path).lower().endswith(".npz"):
        raise InvalidArgumentError(_without_labels(path))
    check_columns(path, target=target)


def _without_labels(path: str | os.PathLike[str]) -> str:
    return (
        f"{str(path)!r} must have labels. Name the column that holds them with "
        "--target."
    )


def labelled_rows(
    model: Any, path: str | os.PathLike[str], target: str | None
) -> tuple[Any, NDArray[Any]]:
    """Return the rows and labels of a table, the columns as the model takes them.

    Parameters
    ----------
    model : object
        What `load_model` returned.
    path : path
        The table.
    target : str or None
        Name of the column with the labels.

    Returns
    -------
    rows : ndarray or data frame of shape (n_rows, n_features)
        Numbers; a data frame for a model that has categories or steps before it.
    labels : ndarray of shape (n_rows,)
        Labels.
    """
    part = table_for(model, path, target).whole()
    if part.labels is None:
        raise InvalidArgumentError(_without_labels(path))
    unknown = without_label(part.labels)
    if unknown.any():
        msg = (
            f"{str(path)!r} has no label in {int(unknown.sum()):,} of its "
            f"{len(unknown):,} rows, row {int(unknown.argmax()) + 1:,} for one. Leave "
            "these rows out."
        )
        raise InvalidArgumentError(msg)
    return part.rows, part.labels


def without_label(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are missing: NaN, None or an empty text.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Labels of any type.

    Returns
    -------
    missing : ndarray of shape (n_rows,), dtype=bool
        True where there is none.
    """
    if labels.dtype.kind in "OSU":
        empty = ["" if label is None else label for label in labels.tolist()]
        return np.array([label in ("", b"") or label != label for label in empty], bool)
    return labels != labels  # NaN is unlike itself


def table_for(
    model: Any,
    path: str | os.PathLike[str],
    target: str | None,
    *,
    needs_target: bool = True,
    keep: tuple[str, ...] = (),
    keep_texts: bool = False,
) -> Table:
    """Return a table whose columns are those that the model takes.

    Parameters
    ----------
    model : object
        What `load_model` or `load_anything` returned.
    path : path
        The table.
    target : str or None
        Name of the column with the labels.
    needs_target : bool, default=True
        Whether it is an error if there is no such column.
    keep, keep_texts
        As for `Table`.
    """
    names = getattr(model, "feature_names_in_", None)
    n_features = getattr(model, "n_features_in_", None)
    if getattr(model, "combined_", None) is not None:
        # Its members look after their columns themselves, by name if they have any.
        columns = None if names is None else tuple(map(str, names))
        as_frame = names is not None
        return Table(
            path,
            target,
            columns,
            int(n_features),  # type: ignore[arg-type]
            needs_target,
            as_frame,
            keep=keep,
            keep_texts=keep_texts,
        )
    # Classifiers of ours have the model inside.
    ours = getattr(model, "forest_", None) is not None
    steps, ensemble = parted(getattr(model, "estimator_", None) if ours else model)
    as_frame = bool(steps) and names is not None
    categories: CategoryColumns = {}
    # The last step of a pipeline takes other columns than the pipeline.
    if not steps:
        forest = getattr(model, "forest_", None) or read_model(ensemble)
        categories = category_columns(forest)
        as_frame = bool(categories)
        if n_features is None or names is None:
            names, n_features = forest.feature_names, forest.n_features
    assert n_features is not None
    names = None if names is None else tuple(map(str, names))
    return Table(
        path,
        target,
        names,
        int(n_features),
        needs_target,
        as_frame,
        categories,
        keep=keep,
        keep_texts=keep_texts,
    )
