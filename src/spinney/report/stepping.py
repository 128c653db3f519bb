"""Numbers of classifiers that can be stopped after any step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Shares of all steps that are listed.
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)


def collect_anytime(classifier: Any, X: Any, y: NDArray[Any] | None) -> dict[str, Any]:
    """Return the quality of predictions after each step.

    Parameters
    ----------
    classifier : AnytimeForestClassifier
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels. Without them, agreement with all steps is counted instead.
    """
    full = classifier.predict_full(X)
    agreement = classifier.accuracy_curve(X, full)
    curve = agreement if y is None else classifier.accuracy_curve(X, y)
    n_steps = len(classifier.order_)
    wanted = 0.99 * curve[-1]
    order = classifier.order
    return {
        "kind": "anytime",
        "method": "steps in the order "
        + (repr(order) if isinstance(order, str) else "that was given"),
        "n_steps": n_steps,
        "curve": {
            "what": "agreement" if y is None else "accuracy",
            "values": curve,
            "mean": curve.mean(),
            # From here on it never gets worse again.
            "steps_to_99_percent": int(np.flatnonzero(curve < wanted).max(initial=-1))
            + 1,
            "at": [
                {
                    "share": share,
                    "steps": round(share * n_steps),
                    "value": curve[round(share * n_steps)],
                    "agreement": agreement[round(share * n_steps)],
                }
                for share in SHARES
            ],
        },
        "error": None if y is None else {"full": np.mean(full != y)},
    }
