"""Quality of the probabilities of a classifier that exits early."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

# Bins of equal width that calibration is measured in.
N_BINS = 15


def collect_probabilities(
    classifier: Any, X: Any, y: NDArray[Any] | None
) -> dict[str, Any] | None:
    """Return how the probabilities compare with those of the model, and with labels.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_proba`.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels.

    Returns
    -------
    probabilities : dict or None
        None if there is one class only, or probabilities were not learnt.
    """
    classes = classifier.classes_
    if len(classes) < 2:
        return None
    try:
        early = classifier.predict_proba(X)
    except NotFittedError:
        return None
    full = classifier.predict_proba_full(X)
    both = {"early": early, "full": full}
    return {
        "mean_difference": float(np.abs(early - full).sum(axis=1).mean() / 2),
        "rank_agreement": rank_agreement(early, full),
        "roc_auc": None
        if y is None
        else {which: area_under_curve(p, y, classes) for which, p in both.items()},
        "calibration_error": None
        if y is None
        else {which: calibration_error(p, y, classes) for which, p in both.items()},
    }


def rank_agreement(
    early: NDArray[np.floating], full: NDArray[np.floating]
) -> float | None:
    """Return the rank correlation (Spearman's) of probabilities, mean over classes.

    Parameters
    ----------
    early, full : ndarray of shape (n_rows, n_classes)
        Probabilities. Of two classes only the second is used.

    Returns
    -------
    correlation : float or None
        None if one of them is the same for all rows.
    """
    from scipy.stats import rankdata

    found = []
    for c in range(1 if early.shape[1] == 2 else 0, early.shape[1]):
        ranks = [rankdata(p[:, c]) for p in (early, full)]
        if len(ranks[0]) and all(np.ptp(each) > 0 for each in ranks):
            found.append(float(np.corrcoef(*ranks)[0, 1]))
    return float(np.mean(found)) if found else None


def area_under_curve(
    probabilities: NDArray[np.floating], y: NDArray[Any], classes: NDArray[Any]
) -> float | None:
    """Return the area under the ROC curve: each class against the rest, the mean.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        Of two classes only the second is used.
    y : ndarray of shape (n_rows,)
        True labels.
    classes : ndarray of shape (n_classes,)
        Class labels.

    Returns
    -------
    area : float or None
        None if no class can be told from the rest. Classes of which there are no rows
        are left out.
    """
    from scipy.stats import rankdata

    found = []
    for c in range(1 if len(classes) == 2 else 0, len(classes)):
        positive = np.asarray(y == classes[c])
        n_positive = int(positive.sum())
        n_pairs = n_positive * (len(positive) - n_positive)
        if n_pairs:
            ranks = rankdata(probabilities[:, c])[positive].sum()
            found.append(float(ranks - n_positive * (n_positive + 1) / 2) / n_pairs)
    return float(np.mean(found)) if found else None


def calibration_error(
    probabilities: NDArray[np.floating], y: NDArray[Any], classes: NDArray[Any]
) -> float:
    """Return the expected calibration error of probabilities.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        With two classes: the second is compared with how often it comes true. With
        more: the largest of each row with how often that class comes true.
    y : ndarray of shape (n_rows,)
        True labels.
    classes : ndarray of shape (n_classes,)
        Class labels.
    """
    column = np.ones(len(y), dtype=np.intp)
    if len(classes) > 2:
        column = probabilities.argmax(axis=1)
    given = probabilities[np.arange(len(y)), column].astype(np.float64)
    true = np.asarray(y == classes[column])
    bins = np.minimum((given * N_BINS).astype(np.intp), N_BINS - 1)
    gaps = np.bincount(bins, weights=given - true, minlength=N_BINS)
    return float(np.abs(gaps).sum() / max(len(y), 1))
