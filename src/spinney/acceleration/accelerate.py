"""Make a trained model faster, with a promise about its predictions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    check_random_state,
    column_or_1d,
)
from sklearn.utils.validation import _num_samples

from spinney.acceleration.selection import Approach, Ladder, Parts, Selection
from spinney.base.all_trees import AllTreesClassifier, all_trees
from spinney.base.all_trees_regressor import AllTreesRegressor
from spinney.base.combined import whole_model
from spinney.base.estimator import class_codes, unwrapped
from spinney.base.parameters import check_choice
from spinney.base.progress import progress_for
from spinney.calibration.bounds import check_confidence, check_max_accuracy_loss
from spinney.calibration.engine_rows import engine_of
from spinney.calibration.ladder import rows_to_promise, warn_of_certain_exits
from spinney.calibration.limits import (
    Bounds,
    Limits,
    check_bounds,
    least_bound,
    limits_for,
)
from spinney.calibration.row_splits import (
    SHARES_OF_ONE_CANDIDATE,
    SHARES_WITH_COMPARISON,
    split_by_class,
    split_by_use,
)
from spinney.cascade import CascadeClassifier
from spinney.cascade.dropping import can_drop_classes
from spinney.errors import InvalidArgumentError, SpinneyWarning, UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.frame_kinds import is_missing
from spinney.forest.frames import as_known_frame, rows_at
from spinney.readers import read_model
from spinney.runtime.compile_notice import not_mentioned
from spinney.sequential.classifier import SequentialVotingClassifier

METHODS = ("auto", "sequential", "cascade")
# Fewer rows than this cannot be split.
LEAST_ROWS = 6
# Of rows on an engine, so many are drawn, and so many times what the promise takes.
ROWS_TO_DRAW = 50_000
TIMES_TO_PROMISE = 20


class _Default(float):
    """A default that can be told from the same number when that is passed."""


DEFAULT_BOUND = _Default(1e-3)


def accelerate(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    max_disagreement: Bounds = DEFAULT_BOUND,
    per_class: bool = False,
    max_accuracy_loss: float | None = None,
    decision_threshold: float | None = None,
    confidence: float | None = None,
    method: str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: Any = None,
) -> (
    SequentialVotingClassifier
    | CascadeClassifier
    | AllTreesClassifier
    | AllTreesRegressor
):
    """Make a trained model faster: with identical predictions, or with early exit.

    Without rows, the result is a drop-in for the model that evaluates all trees in
    spinney's runtime: its `predict` and `predict_proba` return what those of the model
    do, for classifiers, regressors and rankers alike.

    With rows, several early-exit candidates are fitted to some of the rows and compared
    on held-out ones: how many trees they evaluate, how often they disagree with the
    model, how long they take. The fastest that keeps the bound is returned.

    Parameters
    ----------
    model : fitted model, Forest or path
        A trained model that `spinney.read_model` supports, also inside a
        `FrozenEstimator` or as the last step of a fitted `Pipeline`, or the path of a
        model file. With rows, a classifier.
    X : array-like or data frame of shape (n_rows, n_features), default=None
        Rows like those to be predicted, which the model was *not* trained on, for early
        exit. No labels are needed. Pass thousands of rows, or tens of thousands for
        bounds of 0.1 % and less. From Dask or Spark, a uniform random sample is drawn
        in one pass: 50,000 rows, or twenty times as many as are needed to promise the
        bound, if that is more. None evaluates all trees, with identical predictions.
    y : array-like of shape (n_rows,), default=None
        Labels, used only for `max_accuracy_loss`.
    max_disagreement : float or {label: float}, default=1e-3
        Share of new rows whose prediction may differ from the model's own `predict`,
        on average, in ``[0, 1)``. With 0 none ever differs. Without rows it is not
        used, and none ever differs. A mapping sets a bound for each class of the model,
        on the rows that the model assigns to it: ``{"fraud": 0.01, "ok": 0.001}``. Each
        is established on rows of its class, so that rare classes are covered too.
    per_class : bool, default=False
        Whether a single `max_disagreement` is a bound for each class.
    max_accuracy_loss : float, default=None
        How much lower the accuracy on new rows may be than the model's, in ``[0, 1)``,
        on average; needs labels. It replaces the default of `max_disagreement`. If both
        are passed, both hold.
    decision_threshold : float, default=None
        For two classes: the probability of the second class from which it is
        predicted, as in `spinney.read_model`. The bound then covers these predictions;
        None for the model's own `predict`.
    confidence : float, default=None
        If given, the bound holds with this probability, for example 0.95, and not only
        on average. It needs more rows and more trees. See Notes.
    method : {"auto", "sequential", "cascade"}, default="auto"
        What to try: all methods that apply to the model (``"auto"``), only votes or
        probabilities of trees evaluated in random order (``"sequential"``), or only
        scores added up in a chosen order (``"cascade"``). With ``"auto"`` a candidate
        is chosen only if it is faster than all trees. The others need rows.
    random_state : int, RandomState instance or None, default=None
        Draws the splits of the rows, and random orders. Pass an int to make these
        reproducible; the fastest candidate still depends on timings.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done. None draws one in interactive use, if standard
        error is a terminal and it takes more than two seconds. False never does, and
        says nothing of compiling either.

    Returns
    -------
    fast : fitted classifier or regressor
        Without rows an `AllTreesClassifier`, or an `AllTreesRegressor` for regressors
        and rankers. With rows a `SequentialVotingClassifier`, a `CascadeClassifier`,
        or, if nothing faster keeps the bound, an `AllTreesClassifier`; its `predict`
        returns labels for every model, its attribute `acceleration_` holds the
        comparison, which its ``repr`` shows, and how often each class is predicted
        before and after. `promise_` is what is promised; `certificate_` the same, with
        a confidence.

    Raises
    ------
    InvalidArgumentError
        If a setting is out of range, or there are too few rows to split.
    UnsupportedModelError
        If the model cannot be read, is not a classifier though rows are given, or
        `method` does not support it.

    Warns
    -----
    SpinneyWarning
        If the bound cannot be promised with so few rows; the message says how many are
        needed. Rows then exit only where the remaining trees cannot change the
        prediction, or all trees are evaluated. Also if a class that the model predicts
        is no longer predicted, or loses more than a tenth of its rows.

    See Also
    --------
    spinney.certify : Bounds the disagreement of the result on fresh rows.
    spinney.save : Saves the result to a file.

    Notes
    -----
    *A bound on what?* On the share of rows whose label differs from that of
    ``model.predict``. It is not a bound on errors against the true labels: where the
    two differ, either may be right. (`max_accuracy_loss` bounds errors: those of the
    result minus those of the model.) The bound is on a mean over all rows, or over the
    rows of each class if there is a bound for each. Nothing is promised about a single
    row; rows near the decision threshold differ more often than others.

    *Over which randomness?* Without `confidence`: over the calibration rows, the order
    of the trees, and the new row. Averaged over these, the prediction for a new row
    differs with a probability of at most `max_disagreement` (risk control [1]_). With
    `confidence`, the share of such rows keeps the bound with this probability over the
    draw of the rows held out for it [2]_; several bounds hold together with this
    probability. Both are exact, not asymptotic. The candidate is selected on other
    rows, so the selection does not weaken the bound.

    *What would invalidate it?* Calibration rows that the model was trained on, because
    trees are more confident on them than on new ones. New rows from another
    distribution (drift). Dependent rows, such as several of one person. Calling this
    function repeatedly until the result is satisfactory.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei and T. Schuster, "Conformal
       risk control", ICLR, 2024.
    .. [2] W. Maurer, L. A. Hothorn and W. Lehmacher, "Multiple comparisons in drug
       clinical trials and preclinical assays: a-priori ordered hypotheses", 1995.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> model = RandomForestClassifier(200, max_depth=8, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> exact = spinney.accelerate(model)
    >>> bool((exact.predict_proba(X) == model.predict_proba(X)).all())
    True

    With rows, most of them need few trees:

    >>> fast = spinney.accelerate(
    ...     model, X[1000:5000], max_disagreement=0.01, random_state=0
    ... )
    >>> labels, n_evaluated = fast.predict_counted(X[5000:])
    >>> bool((labels != model.predict(X[5000:])).mean() < 0.03)
    True
    """
    check_bounds(max_disagreement, per_class)
    check_choice("method", method, METHODS)
    if engine_of(X) is None:
        X = as_known_frame(X)
    if max_accuracy_loss is not None:
        check_max_accuracy_loss(max_accuracy_loss)
        if X is None:
            msg = (
                "max_accuracy_loss is about early exit, which needs rows and their "
                "labels: spinney.accelerate(model, X, y, max_accuracy_loss=...). "
                "Without rows all trees are evaluated and no accuracy is lost."
            )
            raise InvalidArgumentError(msg)
        y = _checked_labels(X, y)
    if confidence is not None:
        confidence = check_confidence(confidence)
    rng = check_random_state(random_state)
    seed = int(rng.randint(2**31 - 1))
    if X is None:
        if method != "auto":
            msg = (
                f"method={method!r} is a kind of early exit, which needs rows: "
                "spinney.accelerate(model, X). Without rows all trees are evaluated."
            )
            raise InvalidArgumentError(msg)
        return all_trees(_trained(model, decision_threshold, whole_model), n_jobs)
    show = progress_for(verbose, "accelerating")
    with not_mentioned() if verbose is False else nullcontext():
        trained = _trained(model, decision_threshold)
        X = _in_memory(trained, X, least_bound(max_disagreement), confidence, rng)
        whole = AllTreesClassifier(trained, n_jobs=n_jobs).fit_forest(X)
        if whole.forest_.model_predicts != "answer":
            # A bound on disagreement is one on labels, whatever the model's own
            # `predict` returns, and all classifiers here predict labels.
            whole.forest_ = whole.forest_.replace(model_predicts="answer")
        unsaid = isinstance(max_disagreement, _Default) and not per_class
        limits = limits_for(
            None if unsaid and max_accuracy_loss is not None else max_disagreement,
            per_class,
            whole.classes_,
            confidence,
            max_accuracy_loss,
        )
        approaches = _approaches(whole.forest_, method)
        shares = (
            SHARES_WITH_COMPARISON if len(approaches) > 1 else SHARES_OF_ONE_CANDIDATE
        )
        parts, level = _shared_out(whole, X, y, limits, shares, rng)
        selection = Selection(whole, parts, limits)
        # Read once; the steps of a pipeline before the last one are in the model only.
        given = trained if whole.has_preprocessing else whole.forest_
        aims = limits.as_parameters() if level > 0.0 else {"max_disagreement": 0.0}
        settings = {**aims, "random_state": seed, "n_jobs": n_jobs}
        for number, approach in enumerate(approaches):
            show(0.05 + 0.7 * number / len(approaches))
            selection.add(approach, given, settings)
        if level > 0.0 and approaches and not selection.can_be_bold:
            msg = (
                "The model predicts the same class for all rows that candidates could "
                "be fitted to, so rows exit only where the remaining trees cannot "
                "change the prediction. Pass more rows, including some of every class."
            )
            warnings.warn(msg, SpinneyWarning, stacklevel=2)
        show(0.75)
        selection.time()
        must_be_faster = method == "auto"
        chosen = selection.fastest(must_be_faster)
        show(0.85)
        if chosen is not None:
            chosen = selection.promised(chosen, must_be_faster)
        classifier = selection.result(chosen)
        if decision_threshold is not None:
            classifier.set_params(decision_threshold=float(decision_threshold))
        if chosen is not None:
            classifier.fit_probabilities(X)
        show(1.0)
        return classifier


def _trained(
    model: Any,
    decision_threshold: float | None,
    read: Callable[[Any], Any] = read_model,
) -> Any:
    """Return a model as the classifiers take it: frozen, or read already."""
    inner = unwrapped(model)
    if decision_threshold is not None:
        if not isinstance(inner, Pipeline):
            return read_model(inner, decision_threshold=decision_threshold)
        read_model(inner[-1], decision_threshold=decision_threshold)  # or raise
        moved = FixedThresholdClassifier(
            inner[-1], threshold=decision_threshold, response_method="predict_proba"
        )
        moved.estimator_ = inner[-1]  # trained already: there is nothing to fit
        named = f"{inner.steps[-1][0]} at {decision_threshold:g}"
        return FrozenEstimator(Pipeline([*inner.steps[:-1], (named, moved)]))
    if isinstance(inner, Forest):
        return inner
    if isinstance(inner, (str, os.PathLike)):
        return read_model(inner)
    if not hasattr(inner, "get_params"):
        return read(inner)
    return FrozenEstimator(inner)


def _in_memory(
    trained: Any,
    X: Any,
    bound: float,
    confidence: float | None,
    rng: np.random.RandomState,
) -> Any:
    """Return rows as they are, or a random sample of those that an engine holds.

    The sample has the columns of the model; a data frame may have others.
    """
    engine = engine_of(X)
    if engine is None:
        return X
    whole = AllTreesClassifier(trained).fit()
    if whole.forest_ is not None:
        # What does not fit is told now, and not when rows have been drawn from all.
        X = engine.rows_for(whole, X)
    n_rows = TIMES_TO_PROMISE * rows_to_promise(bound, confidence)
    rows = engine.sample(X, max(ROWS_TO_DRAW, n_rows), random_state=rng)
    if len(rows) == 0:
        msg = (
            "X has no rows, so there is nothing to calibrate on. Pass rows of the kind "
            "that will be predicted."
        )
        raise InvalidArgumentError(msg)
    return rows


def _checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Return labels for rows, or say what is missing."""
    if y is None:
        msg = (
            "max_accuracy_loss bounds errors against the true labels, but y is None. "
            "Pass the labels of X as y, or use max_disagreement, which needs none."
        )
        raise InvalidArgumentError(msg)
    if engine_of(X) is not None:
        msg = (
            "max_accuracy_loss needs rows and labels in memory, but X is "
            f"{type(X).__name__}. Draw a sample of both first."
        )
        raise InvalidArgumentError(msg)
    if np.ndim(y) == 0 or (np.ndim(y) > 1 and np.shape(y)[1:] != (1,)):
        msg = (
            f"y must have one label per row, got shape {np.shape(y)}. Pass a single "
            "column of labels."
        )
        raise InvalidArgumentError(msg)
    labels = column_or_1d(y, warn=True)
    if len(labels) != _num_samples(X):
        msg = (
            f"X has {_num_samples(X):,} rows, but y {len(labels):,} labels. Pass one "
            "label per row."
        )
        raise InvalidArgumentError(msg)
    missing = sum(map(is_missing, labels.tolist()))
    if missing:
        msg = (
            f"{missing:,} of {len(labels):,} labels are missing in y, and a loss of "
            "accuracy can be measured on labelled rows only. Drop the other rows, if "
            "labels are missing at random."
        )
        raise InvalidArgumentError(msg)
    return labels


def _shared_out(
    whole: AllTreesClassifier,
    X: Any,
    y: NDArray[Any] | None,
    limits: Limits,
    shares: Mapping[str, float],
    rng: np.random.RandomState,
) -> tuple[Parts, float]:
    """Split the rows by what they are for; return the level to aim at as well.

    Where there are too few rows for the bounds the level is 0: what never differs is
    still allowed.
    """
    n_rows = _num_samples(X)
    if n_rows < LEAST_ROWS:
        msg = (
            f"There are too few rows: X has {n_rows}, and they are split into rows "
            "to fit, to compare and to establish the promise on. Pass thousands, at "
            f"least {LEAST_ROWS}."
        )
        raise InvalidArgumentError(msg)
    level = limits.level
    full = np.zeros(n_rows, dtype=np.intp)  # which class makes no difference
    if limits.by_class is not None and level > 0.0:
        full = class_codes(whole.classes_, whole.predict(X))
    if limits.only_by_class and level > 0.0:
        parts = split_by_class(full, shares, limits.n_to_prove_by_class, rng)
    else:
        parts = split_by_use(n_rows, shares, limits.n_to_prove if level else 0, rng)
    if level > 0.0 and not limits.are_enough(full[parts.prove]):
        counts = np.bincount(full, minlength=len(limits.classes))
        warn_of_certain_exits(
            limits,
            full[parts.prove],
            counts,
            share=shares["prove"],
            fallback=(
                "rows exit only where the remaining trees cannot change the prediction"
            ),
            stacklevel=3,
        )
        parts, level = split_by_use(n_rows, shares, 0, rng), 0.0
    true = None
    if limits.accuracy_loss is not None:
        assert y is not None
        true = class_codes(whole.classes_, y)
    return Parts(
        to_fit=rows_at(X, parts.fit),
        to_compare=rows_at(X, parts.compare),
        to_prove=rows_at(X, parts.prove),
        given=np.bincount(full, minlength=len(limits.classes)),
        share_to_prove=shares["prove"],
        true_compare=None if true is None else true[parts.compare],
        true_prove=None if true is None else true[parts.prove],
    ), level


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
        # Where classes are dropped, nothing else comes near.
        rules += [] if rules and can_drop_classes(forest) else ["optimal"]
    own = "soft" if forest.aggregation == "mean" else "hard"
    return [
        *(
            Approach(f"{v} votes", "sequential", partial(_votes, v), v == own)
            for v in votings
        ),
        *(
            Approach(f"cascade, {r}", "cascade", partial(_cascades, r), True)
            for r in rules
        ),
    ]


def _votes(voting: str, model: Any, settings: dict[str, Any], X: Any) -> Ladder:
    """Return classifiers whose trees vote in random order."""
    return SequentialVotingClassifier(model, voting=voting, **settings).candidates(X)


def _cascades(rule: str, model: Any, settings: dict[str, Any], X: Any) -> Ladder:
    """Return classifiers that add up scores in a chosen order."""
    return CascadeClassifier(model, rule=rule, verbose=False, **settings).candidates(X)
