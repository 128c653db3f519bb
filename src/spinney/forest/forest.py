"""The one neutral representation of a trained ensemble.

Readers make a `Forest` from a foreign model; everything else only uses a `Forest`.

Inner nodes have a value too. Predictions of the whole ensemble do not use it, but
anytime prediction, which may stop half-way down a tree, does. Where a library stores
none, or stores one on another scale, the reader uses the mean of the leaves below,
weighted by their training rows.

How a raw score becomes a label differs between libraries: a score above zero, a score
of at least zero, a probability above one half, the larger of two rounded probabilities.
All of these are steps of the raw score, so a forest stores one number,
`decision_threshold`: the smallest raw score that means the second class. Where a
library decides by probability, the reader finds it by bisection over the floating-point
numbers themselves (`links.smallest_positive_score`), by the library's own rule.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import (
    InvalidArgumentError,
    InvalidForestError,
    UnsupportedModelError,
)
from spinney.forest.arrays import ARRAYS, ARRAYS_PER_NODE, as_frozen, frozen
from spinney.forest.categories import Categories, as_categories
from spinney.forest.curves import Curve
from spinney.forest.encoder import Encoder
from spinney.forest.invariants import check_count, check_forest, tree_depths
from spinney.forest.links import (
    class_probabilities,
    exponential,
    likeliest_classes,
    scipy_softmax,
)
from spinney.forest.locks import ForkSafeLock
from spinney.forest.nodes import LEAF

if TYPE_CHECKING:
    from spinney.runtime import (
        EncodingPredictor,
        Engine,
        NumberPredictor,
        ProbabilityPredictor,
        RowPredictor,
    )

# More classes than any model has; keeps a forged number from filling the memory.
MAX_OUTPUTS = 2**20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Forest:
    """A trained ensemble of binary decision trees as flat, read-only arrays.

    The nodes of tree ``t`` are ``tree_offsets[t]`` up to ``tree_offsets[t + 1]``, the
    root first. At an inner node a row goes left if its value is at most the
    threshold, right otherwise; NaN goes where `missing_left` says.

    Most users get a forest from :func:`spinney.read_model`.

    Parameters
    ----------
    tree_offsets : array of shape (n_trees + 1,), int64
        Where the nodes of each tree begin, and the number of nodes at the end.
    feature : array of shape (n_nodes,), int32
        Column that an inner node compares; -1 at a leaf. Columns from `n_features` on
        are those that `encoder` adds.
    threshold : array of shape (n_nodes,), float64
        Largest value that goes left. Never NaN. Plus infinity sends every number
        left (scikit-learn writes it where a split only separates missing values), minus
        infinity sends left only minus infinity.
    left, right : array of shape (n_nodes,), int32
        Children as indices into the node arrays; -1 at a leaf.
    value : array of shape (n_nodes, n_values), float64
        What the tree contributes if it is stopped at this node, for inner nodes too.
    n_features : int
        Number of columns of a row.
    aggregation : {"vote", "mean", "sum"}
        How trees are combined: each votes for the class of its largest value, or
        their values are averaged, or added.
    missing_left : array of shape (n_nodes,), bool, optional
        Whether NaN goes left. False everywhere if not given.
    zero_is_missing : array of shape (n_nodes,), bool, optional
        Nodes that treat zero (and numbers within 1e-35 of it) as missing.
    category_set : array of shape (n_nodes,), int32, optional
        For nodes that test whether a value is in a set of categories: which set. -1 at
        all other nodes. Members go left, NaN follows `missing_left`, all else goes
        right.
    category_offsets : array of shape (n_sets + 1,), int64, optional
        Where the words of each set begin in `category_words`.
    category_words : array, uint32, optional
        Bit ``c % 32`` of word ``c // 32`` of a set says that category ``c`` is in it.
    category_rule : {"truncate", "floor", "exact"}, default="exact"
        How a number that is not an integer is read as a category: as its integer part,
        as the integer below it, or as no category (in no set). Numbers that are then
        negative, or beyond the last word of a set, are in no set.
    categories : sequence, optional
        For each column None, or its categories in the order of their codes, by which
        the values of a data frame are replaced. With the category rule ``"exact"``
        categories that are numbers are their own codes.
    encoder : Encoder, optional
        Turns rows with category values into the numbers that trees compare, where these
        are not codes; see `Encoder`. It adds columns behind those of a row.
    unseen_category : {"missing", "error"}, default="missing"
        How a value of a data frame is treated that is not among `categories`.
    tree_output : array of shape (n_trees,), int32, optional
        For ensembles in which a tree adds to one of several outputs: the index of that
        output. The trees then have one value per node. Otherwise every tree adds to all
        outputs.
    n_outputs : int, optional
        Number of outputs; by default the number of values per node.
    n_node_samples : array of shape (n_nodes,), float64, optional
        Number (or weight) of training rows at each node, if the source stores it.
    classes : array of shape (n_classes,), optional
        Class labels; None for regression.
    base_score : float or array of shape (n_outputs,), default=0.0
        Raw score before any tree.
    base_added : {"first", "last"}, default="first"
        Whether the sum starts with the base score or ends with it; this affects only
        the last bit.
    link : {"identity", "logistic", "softmax", "logistic_each", "exp", "none"}
        From raw scores to probabilities (or to the prediction of a regressor);
        ``"none"`` for a classifier that has no probabilities.
    link_scale : float, default=1.0
        Factor inside the logistic curve.
    curve : Curve, optional
        A calibration curve behind the link, for two classes and a single output.
    decision_threshold : float, default=0.0
        With a single output and two classes: the smallest raw score that means the
        second class. With several outputs the largest wins, and only 0 is accepted.
    decides_by : {"raw", "probability"}, default="raw"
        With several outputs: what the largest is taken of. The two differ only where
        rounding makes two probabilities equal.
    exponential : {"numpy", "c", "scipy"}, default="numpy"
        Which exponential function the library uses on doubles, for softmax and for the
        link ``"exp"``: NumPy's, or that of the C library. The two differ in the last
        bit. (The logistic link always uses that of the C library.) ``"scipy"``: softmax
        is SciPy's, which stays in float32 throughout.
    input_dtype : {"float32", "float64"}, default="float32"
        Type that the library rounds rows to before it compares.
    sum_dtype : {"float32", "float64"}, default="float64"
        Type in which the library adds up the trees.
    missing_value : float, optional
        A number that means a missing value, besides NaN.
    absent : {"zero", "missing"}, default="zero"
        How an entry of a sparse matrix is read that is not stored.
    rounded_rows : {"none", "integers", "non_floats"}, default="none"
        Which arrays the library rounds to float32 although it compares in
        `input_dtype`: none, those of numbers that are neither float32 nor float64
        (integers, long doubles, another byte order), or these and arrays of Python
        objects. It matters for integers beyond 2**24.
    model_predicts : {"answer", "probability", "raw"}, default="answer"
        What the original model's own `predict` returns, for `predict_model`: the same
        as `predict`, or probabilities, or raw scores.
    feature_names : sequence of str, optional
        Names of the columns.
    source : str, default=""
        The kind of model this was read from, for information only.

    Notes
    -----
    A forest is validated once, when it is created: all indices are in range, every
    node is reached exactly once from the root of its own tree, there are no cycles and
    no NaN among the thresholds, and shapes are consistent. The error names the tree and
    the node.
    """

    tree_offsets: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    n_features: int
    aggregation: str
    missing_left: NDArray[np.bool_] = None  # type: ignore[assignment]
    zero_is_missing: NDArray[np.bool_] | None = None
    category_set: NDArray[np.int32] | None = None
    category_offsets: NDArray[np.int64] | None = None
    category_words: NDArray[np.uint32] | None = None
    category_rule: str = "exact"
    categories: tuple[Categories | None, ...] | None = None
    encoder: Encoder | None = None
    unseen_category: str = "missing"
    tree_output: NDArray[np.int32] | None = None
    n_outputs: int = None  # type: ignore[assignment]
    n_node_samples: NDArray[np.float64] | None = None
    classes: NDArray[Any] | None = None
    base_score: NDArray[np.float64] = 0.0  # type: ignore[assignment]
    base_added: str = "first"
    link: str = "identity"
    link_scale: float = 1.0
    curve: Curve | None = None
    decision_threshold: float = 0.0
    decides_by: str = "raw"
    exponential: str = "numpy"
    input_dtype: str = "float32"
    sum_dtype: str = "float64"
    missing_value: float | None = None
    absent: str = "zero"
    rounded_rows: str = "none"
    model_predicts: str = "answer"
    feature_names: tuple[str, ...] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen for everyone else
        for name, dtype in ARRAYS.items():
            given = getattr(self, name)
            if given is not None:
                put(self, name, as_frozen(given, dtype, name))
        if self.missing_left is None:
            nowhere = np.zeros(self.feature.shape, dtype=np.bool_)
            put(self, "missing_left", frozen(nowhere))
        if self.value.ndim == 1:
            put(self, "value", self.value.reshape(-1, 1))
        if self.n_outputs is None:
            put(self, "n_outputs", int(self.value.shape[1]))
        check_count("n_outputs", self.n_outputs, MAX_OUTPUTS)
        base = np.asarray(self.base_score, dtype=np.float64)
        if base.shape not in ((), (1,), (self.n_outputs,)):
            msg = (
                f"base_score must be one number or {self.n_outputs}, one per output, "
                f"got shape {base.shape}."
            )
            raise InvalidForestError(msg)
        if base.shape != (self.n_outputs,):
            base = np.full(self.n_outputs, base)
        put(self, "base_score", as_frozen(base, np.float64, "base_score"))
        if self.classes is not None:
            put(self, "classes", frozen(np.array(self.classes)))
        if self.feature_names is not None:
            put(self, "feature_names", tuple(map(str, self.feature_names)))
        check_forest(self)
        if self.categories is not None:
            put(self, "categories", as_categories(self.categories, self.n_features))
        self._complete(tree_depths(self))

    def _complete(self, depths: NDArray[np.int64]) -> None:
        """Add to a forest that has been checked what is not part of its state."""
        put = object.__setattr__
        put(self, "_depths", depths)
        put(self, "_engine", None)
        put(self, "_engine_lock", ForkSafeLock())

    # A pickle (joblib, multiprocessing) carries the arrays and nothing compiled, and
    # what comes out of one is checked like any other forest.
    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # ---------------------------------------------------------------- essentials

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together, leaves included."""
        return len(self.feature)

    @property
    def classes_(self) -> NDArray[Any] | None:
        """Class labels, or None if this is a regressor."""
        return self.classes

    @property
    def categories_(self) -> tuple[Categories | None, ...] | None:
        """Categories of each column in the order of their codes; None for numbers."""
        return self.categories

    @property
    def width(self) -> int:
        """Number of columns that trees compare: of a row, and those of `encoder`."""
        return self.n_features + (0 if self.encoder is None else self.encoder.n_added)

    @property
    def depths(self) -> NDArray[np.int64]:
        """Number of levels below the root of each tree; 0 for a single leaf."""
        return self._depths  # type: ignore[attr-defined]

    @property
    def votes_by_class(self) -> bool:
        """Whether a single tree of this forest votes for a class."""
        return (
            self.classes is not None
            and self.tree_output is None
            and self.aggregation in ("vote", "mean")
            and self.value.shape[1] == len(self.classes)
        )

    @property
    def n_probabilities(self) -> int:
        """Number of columns of `predict_proba`; 0 for a regressor.

        As many as there are classes, but two for a logistic curve that was fitted on
        a single class.
        """
        if self.classes is None:
            return 0
        if self.n_outputs == 1 and self.link == "logistic":
            return 2
        return max(len(self.classes), self.n_outputs)

    @property
    def effective_threshold(self) -> float:
        """The decision threshold; infinite if there is no second class."""
        only_one = self.classes is not None and len(self.classes) == 1
        return np.inf if only_one else self.decision_threshold

    def __repr__(self) -> str:
        kind = "regression" if self.classes is None else f"{len(self.classes)} classes"
        origin = f" from {self.source}" if self.source else ""
        return (
            f"<Forest{origin}: {self.n_trees:,} trees, {self.n_nodes:,} nodes, "
            f"depth up to {int(self.depths.max())}, {self.n_features:,} features, "
            f"{kind}, aggregation {self.aggregation!r}>"
        )

    # ---------------------------------------------------------------- evaluating

    @property
    def engine(self) -> Engine:
        """The compiled runtime for this forest, laid out on first use."""
        engine = self._engine  # type: ignore[attr-defined]
        if engine is None:
            from spinney.runtime import Engine

            with self._engine_lock:  # type: ignore[attr-defined]
                engine = self._engine  # type: ignore[attr-defined]
                if engine is None:
                    engine = Engine(self)
                    object.__setattr__(self, "_engine", engine)
        return engine

    def predict(self, X: ArrayLike, n_jobs: int | None = None) -> NDArray[Any]:
        """Predict as the original model does: class labels, if it is a classifier.

        A Booster of LightGBM or XGBoost, and the class ``CatBoost``, return
        probabilities or raw scores from their own `predict`; for these see
        `predict_model`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows. They are rounded to float32 if the original library does so. In a
            data frame of pandas, Polars or Arrow, columns that have `categories_` hold
            the values themselves; in an array, their codes. Sparse matrices are made
            dense a block of rows at a time.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        predictions : ndarray of shape (n_rows,)
            Class labels, or numbers if this is a regressor.
        """
        return self.predictions(self.engine.raw_of(X, n_jobs))

    def predict_model(self, X: ArrayLike, n_jobs: int | None = None) -> NDArray[Any]:
        """Return what the original model's own `predict` returns.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        predictions : ndarray of shape (n_rows,) or (n_rows, n_classes)
            The same as `predict`, unless the model was a Booster of LightGBM or
            XGBoost with a classification objective (the probability of the second of
            two classes, or those of all of several) or of the class ``CatBoost`` (raw
            scores).
        """
        return self.model_predictions(self.engine.raw_of(X, n_jobs))

    def model_predictions(self, raw: NDArray[np.floating]) -> NDArray[Any]:
        """Return what the original model's own `predict` returns for raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_outputs)
            Raw scores.

        Returns
        -------
        predictions : ndarray of shape (n_rows,) or (n_rows, n_classes)
            As for `predict_model`.
        """
        if self.model_predicts == "answer":
            return self.predictions(raw)
        if self.model_predicts == "probability":
            both = self.probabilities(raw)
            return both[:, 1] if self.n_outputs == 1 else both
        return raw[:, 0] if self.n_outputs == 1 else raw

    def predictions(self, raw: NDArray[np.floating]) -> NDArray[Any]:
        """Return the original model's predictions for raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_outputs)
            Raw scores.

        Returns
        -------
        predictions : ndarray of shape (n_rows,)
            As for `predict`.
        """
        if self.classes is not None:
            return self.classes.take(self.winners(raw))
        numbers = raw
        if self.link == "exp":
            as_in_c = self.exponential == "c" and raw.dtype == np.float64
            numbers = exponential(raw, as_in_c)
        return numbers[:, 0] if self.n_outputs == 1 else numbers

    def winners(self, raw: NDArray[np.floating]) -> NDArray[np.intp]:
        """Return the winning class index for raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_outputs)
            Raw scores of a classifier.

        Returns
        -------
        winners : ndarray of shape (n_rows,)
            Indices into `classes_`. Ties go to the first.
        """
        if self.n_outputs == 1:
            threshold = raw.dtype.type(self.effective_threshold)
            return (raw[:, 0] >= threshold).astype(np.intp)
        if self.decides_by == "probability":
            return likeliest_classes(raw, self.link, self.link_scale)
        return raw.argmax(axis=1)

    def predict_proba(
        self, X: ArrayLike, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """Return the probability of each class.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`. With aggregation ``"vote"`` the share of the
            trees that vote for each class. Gradient boosting that was trained on a
            single class has a second column, as in its library.
        """
        if self.classes is None:
            msg = "This forest is a regressor and has no classes. Use predict."
            raise TypeError(msg)
        return self.probabilities(self.engine.raw_of(X, n_jobs))

    def probabilities(self, raw: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the class probabilities for raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_outputs)
            Raw scores of a classifier.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            As for `predict_proba`.
        """
        if self.n_probabilities == 1:
            return raw
        if self.exponential == "scipy" and self.link == "softmax":
            return scipy_softmax(raw)
        parts = self.link, self.link_scale, self.exponential == "c"
        if self.curve is None and self.link == "softmax" and len(raw) == 1:
            shares = self.engine.softmax_of_row(raw)
            if shares is not None:
                return shares
        if self.curve is not None:
            before = raw
            if self.curve.of == "probability":
                before = class_probabilities(raw, *parts)
            return self.curve.probabilities(before[:, -1])
        return class_probabilities(raw, *parts)

    def decision_function(
        self, X: ArrayLike, n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """Return the raw scores: base score plus trees, before the link function.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        raw : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            One column for a single output is returned without its second axis.
        """
        raw = self.engine.raw_of(X, n_jobs)
        return raw[:, 0] if self.n_outputs == 1 else raw

    def votes(self, X: ArrayLike, n_jobs: int | None = None) -> NDArray[np.integer]:
        """Return the class index that each tree votes for.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        votes : ndarray of shape (n_rows, n_trees)
            Indices into `classes_`. A tree votes for its largest value, the first of
            them if several are equal.
        """
        if not self.votes_by_class:
            msg = (
                f"The trees of this forest add to a score (aggregation "
                f"{self.aggregation!r}); they do not vote for a class. Use scores."
            )
            raise UnsupportedModelError(msg)
        return self.engine.votes(self.engine.rows(X), n_jobs)

    def scores(self, X: ArrayLike, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Return what each tree contributes to the raw score.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        scores : ndarray of shape (n_rows, n_trees) or (n_rows, n_trees, n_outputs)
            With a single output the last axis is left out. A tree that adds to one
            of several outputs has zeros at the others. The sum over the trees plus
            `base_score` is the raw score (the mean, with aggregation ``"mean"``).
        """
        return self.engine.scores(self.engine.rows(X), n_jobs)

    def leaves(self, X: ArrayLike, n_jobs: int | None = None) -> NDArray[np.int32]:
        """Return the leaf at which each row ends in each tree.

        Parameters
        ----------
        X, n_jobs
            As for `predict`.

        Returns
        -------
        nodes : ndarray of shape (n_rows, n_trees), dtype=int32
            Indices into the node arrays.
        """
        return self.engine.leaves(self.engine.rows(X), n_jobs)

    def predictor(
        self, kind: str = "label"
    ) -> RowPredictor | NumberPredictor | ProbabilityPredictor | EncodingPredictor:
        """Return a lightweight callable that predicts one row at a time.

        Parameters
        ----------
        kind : {"label", "proba"}, default="label"
            What it returns: the label (the number of a regressor), or the
            probabilities of the classes.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a one-dimensional, contiguous array of
            `n_features` numbers of type `input_dtype` (float32 is always accepted).
            Nothing beyond type and length is checked, which makes it fast. A sequence
            with strings for categories, a dict keyed by column name, and a data frame
            of one row are accepted, too, but take longer.
        """
        if kind == "label":
            return self.engine.predictor()
        if kind != "proba":
            msg = f"kind must be 'label' or 'proba', got {kind!r}."
            raise InvalidArgumentError(msg)
        if self.classes is None:
            msg = "This forest is a regressor and has no classes. Use kind='label'."
            raise TypeError(msg)
        return self.engine.probability_predictor()

    # ---------------------------------------------------------------- parts

    def replace(self, **changes: Any) -> Forest:
        """Return a copy with some parts changed, checked like any other forest.

        Parameters
        ----------
        **changes : object
            New values by the names of the constructor's parameters.

        Returns
        -------
        forest : Forest
            The changed copy.
        """
        return Forest(**(self.__getstate__() | changes))

    def take(self, trees: ArrayLike) -> Forest:
        """Return a forest of some of the trees, in the order given.

        Parameters
        ----------
        trees : array-like of int
            Tree indices, at least one; a tree may be taken several times.

        Returns
        -------
        forest : Forest
            Everything else is unchanged, including the base score. With aggregation
            ``"mean"`` the mean is over the trees taken.
        """
        chosen = np.asarray(trees)
        if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
            msg = (
                "trees must be a non-empty, one-dimensional array of tree indices, "
                f"got {trees!r}."
            )
            raise ValueError(msg)
        if chosen.min() < 0 or chosen.max() >= self.n_trees:
            msg = (
                f"trees must be between 0 and {self.n_trees - 1}, got "
                f"{int(chosen.min())} to {int(chosen.max())}."
            )
            raise IndexError(msg)
        starts, ends = self.tree_offsets[chosen], self.tree_offsets[chosen + 1]
        sizes = ends - starts
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(offsets[:-1] - starts, sizes)  # new index minus old index
        nodes = np.arange(offsets[-1]) - shift
        inner = self.feature[nodes] != LEAF
        changes: dict[str, Any] = {"tree_offsets": offsets}
        for name in ARRAYS_PER_NODE:
            given = getattr(self, name)
            if given is not None:
                changes[name] = given[nodes]
        for child in ("left", "right"):
            changes[child] = np.where(inner, changes[child] + shift, LEAF)
        if self.tree_output is not None:
            changes["tree_output"] = self.tree_output[chosen]
        if offsets[-1] > self.n_nodes:
            return self.replace(**changes)  # trees taken several times may be too many
        return self._with_trees(changes, self.depths[chosen])

    def _with_trees(self, changes: dict[str, Any], depths: NDArray[np.int64]) -> Forest:
        """Return a forest of trees of this one, which have been checked already."""
        made = object.__new__(Forest)
        for name, part in (self.__getstate__() | changes).items():
            if name in changes:
                part = as_frozen(part, ARRAYS[name], name)
            object.__setattr__(made, name, part)
        made._complete(frozen(depths))
        return made
