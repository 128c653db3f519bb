"""Collect the numbers of a report on a fitted classifier, as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _num_samples, check_is_fitted

from spinney._version import __version__
from spinney.base.progress import progress_for
from spinney.errors import InvalidArgumentError
from spinney.report.pruned import collect_budgeted, collect_pruner
from spinney.report.stepping import collect_anytime
from spinney.report.stopping import collect_stopping
from spinney.report.values import plain, text_of

# A longer list of classes is cut.
MOST_CLASSES = 50


def collect(
    classifier: Any, X: Any, y: Any = None, *, verbose: Any = None
) -> dict[str, Any]:
    """Measure a fitted classifier on rows, and return plain values.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        Of any kind.
    X : array-like of shape (n_rows, n_features)
        Rows, at least one; preferably rows that were not used for training or fitting.
    y : array-like of shape (n_rows,), optional
        True labels, to count errors with.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the share
        of the work that is done. None draws one in interactive use, if it takes more
        than two seconds.

    Returns
    -------
    facts : dict
        Plain JSON values: numbers, strings, lists, dictionaries, and None for what is
        unknown. The key ``"kind"`` determines the other keys.
    """
    show = progress_for(verbose, "reporting")
    find = _collector(classifier, show)
    check_is_fitted(classifier)
    n_rows = _num_samples(X)
    if n_rows == 0:
        msg = "A report needs rows, but X has none. Pass at least one."
        raise InvalidArgumentError(msg)
    labels = None if y is None else _checked_labels(classifier, y, n_rows)
    facts = {
        "format": 1,
        "spinney_version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "classifier": type(classifier).__name__,
        "model": _model_facts(classifier),
        "rows": {"n_rows": n_rows, "labelled": labels is not None},
    }
    facts |= find(classifier, X, labels)
    show(1.0)
    return plain(facts)


def _collector(classifier: Any, show: Callable[[float], None]) -> Any:
    """Return the function that knows this kind of classifier, by what it can do."""
    kind = type(classifier)
    for method, find in (
        ("predict_counted", partial(collect_stopping, show=show)),
        ("accuracy_curve", collect_anytime),
        ("forest_at", collect_pruner),
        ("feature_cost", collect_budgeted),
    ):
        if callable(getattr(kind, method, None)):
            return find
    msg = (
        f"A report needs a fitted classifier of spinney, got {kind.__name__}. Wrap the "
        "model first: spinney.accelerate(model, X) for example."
    )
    raise InvalidArgumentError(msg)


def _checked_labels(classifier: Any, y: Any, n_rows: int) -> NDArray[Any]:
    """Return labels as an array, or raise if they do not fit the classifier."""
    labels = np.asarray(column_or_1d(y, warn=True))
    if len(labels) != n_rows:
        msg = (
            f"y must have one label for each of the {n_rows:,} rows of X, got "
            f"{len(labels):,}."
        )
        raise InvalidArgumentError(msg)
    classes = classifier.classes_
    strange = ~np.isin(labels, classes)
    if strange.any():
        first = labels[strange][:1].tolist()[0]
        shown = ", ".join(repr(label) for label in classes[:8].tolist())
        more = "" if len(classes) <= 8 else f", ... ({len(classes)} in all)"
        msg = (
            f"y holds the label {first!r}, which the model does not know; its classes "
            f"are {shown}{more}. Pass the labels that the model was trained with."
        )
        raise InvalidArgumentError(msg)
    return labels


def _model_facts(classifier: Any) -> dict[str, Any]:
    """Return the origin and the size of the model."""
    forest = getattr(classifier, "full_forest_", None)
    if forest is None:
        forest = classifier.forest_
    classes = classifier.classes_
    n_features = getattr(classifier, "n_features_in_", None)
    if n_features is None:  # the words of texts, for example
        n_features = forest.n_features
    facts = {
        "n_features": int(n_features),
        "n_classes": len(classes),
        "classes": [text_of(label) for label in classes[:MOST_CLASSES].tolist()],
    }
    if forest is None:
        # Voters other than trees, called one by one.
        return facts | {
            "source": "classifiers that vote",
            "n_trees": len(classifier.order_),
            "n_nodes": None,
            "depth": None,
            "aggregation": None,
        }
    return facts | {
        "source": text_of(forest.source) or "a forest",
        "n_trees": forest.n_trees,
        "n_nodes": forest.n_nodes,
        "depth": int(forest.depths.max()),
        "aggregation": forest.aggregation,
    }
