"""Models and labelled rows in files, as the commands take them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from spinney.cli.tables import Table
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.readers import read_model

Model = Annotated[
    Path,
    typer.Argument(
        help="Model file: LightGBM, XGBoost, CatBoost, spinney, skops; a pickle with "
        "--trust.",
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Argument(help="Rows: CSV, Parquet, Arrow or NPZ.", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column with the labels; in NPZ files y, if not given."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Load pickles, which can run any code."),
]

PICKLES = (".pkl", ".pickle", ".joblib")


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


def _unpickled(path: str | os.PathLike[str], trust: bool) -> Any:
    if not Path(path).is_file():
        return read_model(path)  # it says what is wrong with the path
    if not trust:
        msg = (
            f"{str(path)!r} is a pickle, and loading a pickle runs whatever code is in "
            "it.\nHint: add --trust if it comes from somebody you trust."
        )
        raise UnsupportedModelError(msg)
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
    try:
        from skops.io import get_untrusted_types, load
    except ImportError as error:
        msg = f"To load {str(path)!r}, install skops."
        raise ImportError(msg) from error
    unknown = get_untrusted_types(file=path)
    if unknown and not trust:
        msg = (
            f"{str(path)!r} holds types that skops does not know to be safe: "
            f"{', '.join(unknown[:5])}.\nHint: add --trust if it comes from somebody "
            "you trust."
        )
        raise UnsupportedModelError(msg)
    return load(path, trusted=unknown)


def labelled_rows(
    model: Any, path: str | os.PathLike[str], target: str | None
) -> tuple[NDArray[np.floating], NDArray[Any]]:
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
    rows : ndarray of shape (n_rows, n_features)
        Numbers.
    labels : ndarray of shape (n_rows,)
        Labels.
    """
    part = table_for(model, path, target).whole()
    if part.labels is None:
        msg = (
            f"{str(path)!r} must have labels. Name the column that holds them with "
            "--target."
        )
        raise InvalidArgumentError(msg)
    return part.rows, part.labels


def table_for(model: Any, path: str | os.PathLike[str], target: str | None) -> Table:
    """Return a table whose columns are those that the model takes.

    Parameters
    ----------
    model : object
        What `load_model` returned.
    path : path
        The table.
    target : str or None
        Name of the column with the labels.
    """
    names = getattr(model, "feature_names_in_", None)
    n_features = getattr(model, "n_features_in_", None)
    if n_features is None:
        forest = read_model(model)
        names, n_features = forest.feature_names, forest.n_features
    return Table(path, target, None if names is None else tuple(names), n_features)
