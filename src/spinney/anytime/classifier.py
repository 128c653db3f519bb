"""A classifier that can be stopped after any step, and predicts from there."""

from __future__ import annotations

from numbers import Integral, Real
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, column_or_1d

from spinney.anytime.deadline import DeadlineRunner
from spinney.anytime.ordering_rows import OrderingRows
from spinney.anytime.orders import check_order, make_order
from spinney.anytime.session import AnytimeSession
from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.estimator import EnsembleClassifier
from spinney.base.progress import progress_for
from spinney.errors import FormatError, InvalidArgumentError, SpinneyError
from spinney.forest.frames import as_known_frame, is_frame
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array
from spinney.runtime.steps.engine import StepEngine


class AnytimeForestClassifier(EnsembleClassifier):
    """Classifier that can predict after any number of steps, improving with each.

    A step goes one level down in one tree. Inner nodes have values too, so a forest
    can be stopped in any state: its prediction is that of the sum over the nodes
    reached. The order of the steps determines how soon predictions are good; `fit`
    finds it on labelled rows.

    Parameters
    ----------
    estimator : estimator
        The ensemble: a trained model as ``FrozenEstimator(model)``, a `Forest`, or an
        unfitted classifier, which `fit` trains on three quarters of the rows.
    order : str or array-like of int, default="backward_squirrel"
        The step order:

        - ``"backward_squirrel"``, ``"forward_squirrel"``: always the best single step,
          found from the leaves or from the roots;
        - ``"optimal"``, ``"unoptimal"``: largest and smallest mean accuracy over all
          states. The number of states, the product of (depth + 1) over all trees, must
          fit into memory;
        - ``"depth"``, ``"breadth"``: tree after tree to its leaves, or one step in each
          tree in turn; ``"depth_drep"``, ``"breadth_drep"`` and so on with the trees in
          the sequence ``natural``, ``individual_error``, ``error_ambiguity``,
          ``reduced_error``, ``drep`` or (two classes only) ``qwyc``;
        - ``"random"``;
        - an array with a tree index per step.
    random_state : int, RandomState instance or None, default=None
        Draws the random order, and the rows that an unfitted estimator is trained on.
    n_jobs : int or None, default=None
        Number of threads; None means one, -1 all cores.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done. None draws one in interactive use, if standard
        error is a terminal and it takes more than two seconds; False never does.

    Attributes
    ----------
    estimator_ : estimator
        The trained model.
    forest_ : Forest
        The model as a forest.
    order_ : ndarray of shape (n_steps,), dtype=int64
        Tree to step in. Every tree occurs as often as it is deep.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if `X` had any.

    See Also
    --------
    AnytimeSession : One row that is stepped and read at any time.

    Notes
    -----
    States are counted in steps of the order. For a row that has reached a leaf early,
    further steps of that tree change nothing and cost nothing. The sums over the nodes
    are kept as integers, so a state has the same prediction however it was reached.
    Ties go to the first class. A row that has reached a leaf of every tree has
    the prediction of the model itself.

    An order is fitted to the rows of `fit`. Hold out some rows for it: on rows that
    the model was trained on, accuracies are too high.

    The orders are those of [1]_.

    References
    ----------
    .. [1] D. Biebert, C. Hakert, K. Heider, D. Kuhse, S. Buschjäger and J.-J. Chen,
       "Jump Like A Squirrel: Optimized Execution Step Order for Anytime Random Forest
       Inference", 2026.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> from spinney.anytime import AnytimeForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(20, max_depth=5, random_state=0)
    >>> forest = forest.fit(X[:300], y[:300])
    >>> anytime = AnytimeForestClassifier(FrozenEstimator(forest))
    >>> anytime = anytime.fit(X[300:450], y[300:450])
    >>> len(anytime.order_)
    100
    >>> accuracy = anytime.accuracy_curve(X[450:], y[450:])
    >>> round(float(accuracy[10]), 2), round(float(accuracy[-1]), 2)
    (0.93, 0.95)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        order: str | ArrayLike = "backward_squirrel",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = None,
    ) -> None:
        self.estimator = estimator
        self.order = order
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> AnytimeForestClassifier:
        """Find the step order, after training the model if it is not trained.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to evaluate orders on. An unfitted estimator is trained on three
            quarters of them, and the rest is used for the order.
        y : array-like of shape (n_rows,)
            Their labels.

        Returns
        -------
        self : AnytimeForestClassifier
            The fitted classifier.
        """
        if y is None:
            # scikit-learn's common checks look for the first words.
            msg = (
                "requires y to be passed, but the target y is None: orders are "
                "compared by how many rows they classify correctly. Pass the labels "
                "of X."
            )
            raise InvalidArgumentError(msg)
        # Nothing is promised about new rows, and orders are best judged on all classes.
        rows, codes = self._train_or_unwrap(X, y, hold_out="by_class")
        assert codes is not None
        data = self._ordering_rows(rows, codes)
        show = progress_for(self.verbose, "ordering")
        order = make_order(
            data,
            self.order,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            on_progress=lambda done, total: show(done / total),
        )
        show(1.0)
        self._take_order(order, rows)
        return self

    def _take_order(self, order: ArrayLike, rows: Any = None) -> None:
        """Prepare to step through `forest_` in this order, after checking it."""
        self.order_ = check_order(order, self.forest_.depths)
        self._engine = StepEngine.warmed_up(self.forest_, self.order_)
        seen = rows if isinstance(rows, np.ndarray) else None
        self._deadline_runner = DeadlineRunner(self._engine, seen)

    def predict(self, X: Any, max_steps: int | None = None) -> NDArray[Any]:
        """Predict class labels after a number of steps.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        max_steps : int or None, default=None
            Number of steps to take, 0 or more; None takes all of them, as does any
            number beyond ``len(order_)``.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels; after all steps those of the model itself.
        """
        rows = self._rows(X)
        n_steps = self._checked_steps(max_steps)
        if n_steps is None:
            return self.classes_[self._engine.forest_winners(rows, self.n_jobs)]
        winner = self._engine.winners_after(rows, n_steps, self.n_jobs)
        return self.classes_[winner]

    def predict_proba(
        self, X: Any, max_steps: int | None = None
    ) -> NDArray[np.floating]:
        """Return the probability of each class after a number of steps.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        max_steps : int or None, default=None
            As for `predict`.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        rows = self._rows(X)
        n_steps = self._checked_steps(max_steps)
        if n_steps is None:
            return self._engine.forest_probabilities(rows, self.n_jobs)
        sums = self._engine.sums_after(rows, n_steps, self.n_jobs)
        return self._engine.class_sums.probabilities(sums)

    def predict_within(
        self, X: Any, seconds: float
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Predict class labels as well as possible within a time limit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        seconds : float
            Time from the call to the result, more than 0.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        n_steps : ndarray of shape (n_rows,), dtype=int64
            Steps that each row took. Rows advance together in blocks; if the time is up
            in the middle of a round, the last blocks have taken fewer steps.

        Notes
        -----
        The time includes checking `X`, which cannot be interrupted. The clock is read
        every few steps, and a step is not started if it is unlikely to end in time.
        Speeds are measured by `fit`, or when a fitted classifier is loaded, and updated
        by every batch of 256 rows or more.
        """
        begin = perf_counter()
        if isinstance(seconds, bool) or not isinstance(seconds, Real):
            msg = f"seconds must be a number above 0, got {seconds!r}."
            raise InvalidArgumentError(msg)
        if not seconds > 0:
            msg = (
                f"seconds must be above 0, got {seconds!r}. It is the time from the "
                "call to the result: write 0.002 for two milliseconds."
            )
            raise InvalidArgumentError(msg)
        rows = self._rows(X)
        deadline = begin + float(seconds)
        winner, n_steps = self._deadline_runner.winners_within(
            rows, deadline, self.n_jobs
        )
        return self.classes_[winner], n_steps

    def accuracy_curve(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return the accuracy in every state along the order.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, at least one.
        y : array-like of shape (n_rows,)
            Their labels.

        Returns
        -------
        accuracy : ndarray of shape (n_steps + 1,)
            After 0, 1, ..., ``len(order_)`` steps.
        """
        rows = self._rows(X)
        codes = self._codes(column_or_1d(y, warn=True))
        data = self._ordering_rows(rows, codes)
        return data.correct_along(self.order_, self.n_jobs) / len(rows)

    def session(self, x: Any) -> AnytimeSession:
        """Start a session for one row, to be stepped and read at any time.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            The row; a table with one row is accepted, too.

        Returns
        -------
        session : AnytimeSession
            The row in the initial state.
        """
        if hasattr(x, "to_frame"):
            x = x.to_frame().T  # a row of a data frame keeps its names
        elif not is_frame(x := as_known_frame(x)) and np.ndim(x) == 1:
            x = np.asarray(x).reshape(1, -1)
        rows = self._rows(x)
        if len(rows) != 1:
            msg = (
                f"session takes one row of {self.n_features_in_} numbers, got "
                f"{len(rows)} rows. Use predict for several rows."
            )
            raise InvalidArgumentError(msg)
        return AnytimeSession(self._engine, rows)

    def plot(self, X: Any, y: Any, ax: Any = None) -> Any:
        """Draw the accuracy over the steps, with matplotlib.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Their labels.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ax : matplotlib Axes
            What was drawn on.
        """
        from spinney.anytime.plotting import plot_curves

        name = self.order if isinstance(self.order, str) else "given order"
        return plot_curves({name: self.accuracy_curve(X, y)}, ax)

    def _ordering_rows(
        self, rows: NDArray[np.floating], codes: NDArray[np.intp]
    ) -> OrderingRows:
        """Return rows prepared for rating orders, or say what is wrong with them."""
        if codes.shape != (len(rows),):
            msg = (
                f"y must have one label for each of the {len(rows)} rows, got shape "
                f"{codes.shape}."
            )
            raise InvalidArgumentError(msg)
        if len(rows) == 0:
            msg = "An order is fitted to rows, and X has none. Pass some rows."
            raise InvalidArgumentError(msg)
        return OrderingRows.of_rows(self.forest_, rows, codes, self.n_jobs)

    def _checked_steps(self, max_steps: Any) -> int | None:
        """Return the number of steps to take; None for all of them."""
        if max_steps is None:
            return None
        is_integer = isinstance(max_steps, Integral) and not isinstance(max_steps, bool)
        if not is_integer or int(max_steps) < 0:
            msg = (
                f"max_steps must be an integer, 0 or more, or None, got {max_steps!r}. "
                f"The forest has {len(self.order_)} steps in all."
            )
            raise InvalidArgumentError(msg)
        return None if int(max_steps) >= len(self.order_) else int(max_steps)

    # ---------------------------------------------------------------- files

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        return settings, arrays | {"order": self.order_}

    @classmethod
    def __spinney_load__(
        cls, settings: Settings, arrays: Arrays
    ) -> AnytimeForestClassifier:
        classifier: AnytimeForestClassifier = classifier_from_parts(
            cls, settings, arrays
        )
        order = take_array(arrays, "order", np.int64, 1)
        try:
            classifier._take_order(order)
        except SpinneyError as error:
            raise FormatError(str(error).rstrip(".")) from error
        return classifier

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
