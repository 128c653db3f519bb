"""The front door: a trained model in, a faster one out, with a promise."""

from __future__ import annotations

import math
import os
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from spinney.acceleration.selection import Approach, Ladder, Parts, Selection
from spinney.base.all_trees import AllTreesClassifier
from spinney.base.estimator import unwrapped
from spinney.base.parameters import check_choice
from spinney.base.progress import progress_for
from spinney.calibration.bounds import (
    check_confidence,
    check_max_disagreement,
    rows_needed,
)
from spinney.calibration.row_splits import LEAST_TO_FIT, split_by_use
from spinney.cascade import CascadeClassifier
from spinney.errors import InvalidArgumentError, SpinneyWarning, UnsupportedModelError
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.sequential.classifier import SequentialVotingClassifier

METHODS = ("auto", "sequential", "cascade")
# How rows are shared out: to choose an order of trees, to fit thresholds, to compare
# what comes out, and to prove a bound. Where rows are scarce, the proof gets more.
SHARES = {"order": 0.2, "fit": 0.4, "compare": 0.4}
SHARES_WITH_PROOF = {"order": 0.15, "fit": 0.25, "compare": 0.15, "prove": 0.45}


def accelerate(
    model: Any,
    X: Any,
    *,
    max_disagreement: float = 1e-3,
    confidence: float | None = None,
    method: str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: Any = False,
) -> SequentialVotingClassifier | CascadeClassifier | AllTreesClassifier:
    """Make a trained model faster, and say how often its answer may change.

    Several ways to evaluate fewer trees are fitted to a part of the rows and compared
    on held-out ones: how many trees they evaluate, how often they disagree with the
    model, how long they take. The fastest that keeps the bound is returned.

    Parameters
    ----------
    model : fitted model, Forest or path
        A trained classifier that `spinney.read_model` knows, also inside a
        `FrozenEstimator` or as the last step of a fitted `Pipeline`, or the path of a
        model file.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows of the kind that will be predicted, which the model was *not* trained on.
        No labels are needed. Some thousands are good, tens of thousands better.
    max_disagreement : float, default=1e-3
        Share of the rows that may be answered otherwise than by the model's own
        `predict`, in ``[0, 1)``.
    confidence : float, default=None
        If given, the bound is a statement about new rows that holds with this
        probability, for example 0.95. See Notes.
    method : {"auto", "sequential", "cascade"}, default="auto"
        What to try: everything that suits the model, only votes or probabilities of
        trees evaluated in random order, or only scores added up in a chosen order.
        With ``"auto"`` a candidate is chosen only if it is faster than all trees.
    random_state : int, RandomState instance or None, default=None
        Draws which row is used for what, and random orders. Pass an int for
        repeatable parts; what is the fastest is still measured.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.
    verbose : bool or callable, default=False
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done.

    Returns
    -------
    classifier : fitted classifier
        A `SequentialVotingClassifier`, a `CascadeClassifier`, or, if nothing faster
        keeps the bound, an `AllTreesClassifier`. Its attribute `acceleration_` holds
        the comparison, which its ``repr`` shows. `certificate_` is what is proven.

    Raises
    ------
    InvalidArgumentError
        If a setting is out of range, or there are too few rows to part them.
    UnsupportedModelError
        If the model is no classifier that can be read, or `method` does not suit it.

    Warns
    -----
    SpinneyWarning
        If no candidate that evaluates fewer trees keeps the bound, or it cannot be
        proven with so few rows; the message says how many are needed. All trees are
        evaluated then.

    See Also
    --------
    spinney.certify : What fresh rows prove about the result.
    spinney.save : Keep the result in a file.

    Notes
    -----
    *A bound on what?* On the share of rows whose label differs from the one that
    ``model.predict`` gives. It is no bound on errors against the truth: where the two
    differ, either may be right. It is a mean over rows. For a single row there is no
    promise; rows near the decision threshold differ more often than others.

    *Over which randomness?* Without `confidence` none: the bound holds for the rows
    given, for those held out from fitting and for all of them together. New rows
    will be close to that, somewhat below or above. With `confidence` it holds for the
    distribution that the rows come from, with this probability over the draw of the
    rows kept for proof. The approach is chosen on other rows, and its candidates are
    tested on the rows for proof in a fixed sequence, from the most cautious on, until
    the first one fails; so the choice costs nothing [1]_. The bound is exact, with no
    approximation for large numbers.

    *What would invalidate it?* Rows that the model was trained on: trees are surer of
    them than of new ones. Rows of another kind than those to come (drift). Rows that
    depend on one another, as several of one person do. Calling this function until the
    result pleases.

    References
    ----------
    .. [1] W. Maurer, L. A. Hothorn and W. Lehmacher, "Multiple comparisons in drug
       clinical trials and preclinical assays: a-priori ordered hypotheses", 1995.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> model = RandomForestClassifier(200, max_depth=8, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> fast = spinney.accelerate(
    ...     model, X[1000:5000], max_disagreement=0.01, random_state=0
    ... )
    >>> labels, n_evaluated = fast.predict_counted(X[5000:])
    >>> bool((labels != model.predict(X[5000:])).mean() < 0.03)
    True
    """
    bound = check_max_disagreement(max_disagreement)
    check_choice("method", method, METHODS)
    if confidence is not None:
        confidence = check_confidence(confidence)
    rng = check_random_state(random_state)
    seed = int(rng.randint(2**31 - 1))
    show = progress_for(verbose, "accelerating")
    trained = _trained(model)
    whole = AllTreesClassifier(trained, n_jobs=n_jobs).fit(X)
    approaches = _approaches(whole.forest_, method)
    if not _enough_rows(_num_samples(X), bound, confidence):
        approaches = []
    parts = _shared_out(X, bound, confidence, rng)
    selection = Selection(whole, parts, bound, confidence)
    # Read once; the steps of a pipeline before the last one are in the model only.
    given = trained if whole.has_preprocessing else whole.forest_
    settings = {"max_disagreement": bound, "random_state": seed, "n_jobs": n_jobs}
    for number, approach in enumerate(approaches):
        show(0.05 + 0.7 * number / len(approaches))
        selection.add(approach, given, settings)
    show(0.75)
    selection.time()
    chosen = selection.fastest(must_be_faster=method == "auto")
    show(0.85)
    if confidence is not None and chosen is not None:
        chosen = selection.proven(chosen, must_be_faster=method == "auto")
    elif approaches and not selection.any_kept_promise:
        _warn_that_nothing_fits(bound, confidence, selection)
    show(1.0)
    return selection.result(chosen)


def _trained(model: Any) -> Any:
    """Return a model as the classifiers take it: frozen, or read already."""
    inner = unwrapped(model)
    if isinstance(inner, Forest):
        return inner
    if isinstance(inner, (str, os.PathLike)) or not hasattr(inner, "get_params"):
        return read_model(inner)
    return FrozenEstimator(inner)


def _enough_rows(n_rows: int, bound: float, confidence: float | None) -> bool:
    """Whether so many rows can tell or prove anything; warn or raise if not."""
    shares = SHARES if confidence is None else SHARES_WITH_PROOF
    if n_rows < 2 * len(shares):
        msg = (
            f"There are too few rows: X has {n_rows}, and they are parted into "
            f"{len(shares)}: to fit, to compare and to prove. Pass thousands; "
            f"{2 * len(shares)} are the least."
        )
        raise InvalidArgumentError(msg)
    if confidence is None:
        if 0.0 < bound * n_rows < 1.0:
            msg = (
                f"X has {n_rows:,} rows, too few to see a disagreement of {bound:.4g}: "
                f"not even one of them may differ. Pass {math.ceil(1.0 / bound):,} or "
                "more, or a larger max_disagreement."
            )
            warnings.warn(msg, SpinneyWarning, stacklevel=3)
        return True
    if bound == 0.0:
        msg = (
            "No number of rows proves that nothing ever differs, so all trees are "
            "evaluated. Leave confidence out, or allow some disagreement."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=3)
        return False
    to_prove = rows_needed(bound, confidence)
    least = min(math.ceil(to_prove / shares["prove"]), to_prove + LEAST_TO_FIT)
    if n_rows >= least:
        return True
    msg = (
        f"X has {n_rows:,} rows, and a disagreement of at most {bound:.4g} with a "
        f"confidence of {confidence:g} takes {least:,} at least, even if none of them "
        "disagrees, so all trees are evaluated. Pass more rows, or a larger "
        "max_disagreement."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=3)
    return False


def _shared_out(
    X: Any, bound: float, confidence: float | None, rng: np.random.RandomState
) -> Parts:
    """Part the rows by what they are for."""
    parts = split_by_use(
        _num_samples(X),
        SHARES if confidence is None else SHARES_WITH_PROOF,
        max_disagreement=bound,
        confidence=confidence,
        rng=rng,
    )
    assert parts.order is not None
    both = np.sort(np.concatenate([parts.order, parts.fit]))
    return Parts(
        to_order=_safe_indexing(X, parts.order),
        to_fit=_safe_indexing(X, parts.fit),
        to_order_and_fit=_safe_indexing(X, both),
        to_compare=_safe_indexing(X, parts.compare),
        to_prove=None if parts.prove is None else _safe_indexing(X, parts.prove),
        usual_share=parts.usual_share,
        n_given=parts.n_given,
    )


def _approaches(forest: Forest, method: str) -> list[Approach]:
    """Return the approaches that suit a forest."""
    votes = forest.aggregation != "sum"
    if method == "sequential" and not votes:
        msg = (
            f"method='sequential' is for trees that vote; those of this model "
            f"({forest.source or 'a sum of trees'}) add to a score. Use "
            "method='cascade' or 'auto'."
        )
        raise UnsupportedModelError(msg)
    assert forest.classes_ is not None
    if len(forest.classes_) < 2:
        return []
    votings, rules = [], []
    if method != "cascade" and votes:
        votings += ["soft"] if forest.aggregation == "mean" else []
        votings += ["hard"] if forest.votes_by_class else []
    if method == "cascade" or not votes:
        rules += ["thresholds"]
    if method != "sequential":
        rules += ["optimal"]
    return [
        *(Approach(f"{v} votes", "sequential", partial(_votes, v)) for v in votings),
        *(Approach(f"cascade, {r}", "cascade", partial(_cascades, r)) for r in rules),
    ]


def _votes(voting: str, model: Any, settings: dict[str, Any], parts: Parts) -> Ladder:
    """Return classifiers whose trees vote in random order."""
    classifier = SequentialVotingClassifier(model, voting=voting, **settings)
    # No rows are needed for the order, so all of them serve the thresholds.
    return classifier.candidates(parts.to_order_and_fit)


def _cascades(rule: str, model: Any, settings: dict[str, Any], parts: Parts) -> Ladder:
    """Return classifiers that add up scores in a chosen order."""
    classifier = CascadeClassifier(model, rule=rule, **settings)
    return classifier.candidates(parts.to_fit, parts.to_order)


def _warn_that_nothing_fits(
    bound: float, confidence: float | None, selection: Selection
) -> None:
    """Warn that no candidate that evaluates fewer trees kept the bound."""
    if not selection.candidates:
        msg = (
            "The model gives the same answer for all rows that something could be "
            "learnt from, so all trees are evaluated. Pass more rows, among them some "
            "of every class."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=3)
        return
    closest = min(one.record.disagreement for one in selection.candidates)
    msg = (
        f"No candidate that evaluates fewer trees kept to a disagreement of "
        f"{bound:.4g} with the model: on {selection.n_compared:,} held-out rows, the "
        f"most cautious one disagreed on {closest:.4g} of them"
    )
    if confidence is not None:
        msg += f", too many to prove the bound with a confidence of {confidence:g}"
    least = math.ceil(10.0 / max(bound, 1e-9))
    msg += (
        f". All trees are evaluated. Pass more rows ({least:,} are good for such a "
        "bound), or a larger max_disagreement."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=3)
