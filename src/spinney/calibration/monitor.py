"""Monitor in production whether the promise of a classifier still holds on live rows.

A random share of the live rows is also predicted by all trees. An e-process measures
the evidence against the bound: it remains small as long as the disagreement keeps its
bound, and grows without limit once it does not. It may be read after every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from spinney.calibration.bounds import Certificate
from spinney.calibration.evidence import CONFIDENCE, confidence_sequence, mean_log_e
from spinney.calibration.monitor_status import (
    ALL_ROWS,
    as_prometheus,
    bounds_of,
    counts_in,
)
from spinney.errors import InvalidArgumentError
from spinney.forest.frames import as_known_frame, rows_at
from spinney.forest.locks import ForkSafeLock
from spinney.runtime.row_predictors import row_as_table, values_by_name

# Rows to check are drawn so many at a time, by how many rows lie between two of them.
N_DRAWN, LARGEST_GAP = 256, 2**50

_NONE = np.zeros(0, dtype=np.int64)


class Monitor:
    """Check a random share of live rows against all trees, and raise an alarm.

    Use it in place of the classifier. Rows that are checked take the additional time
    of all trees; the others take hardly longer than before.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        The classifier to monitor.
    share : float, default=0.01
        Share of the rows to check, above 0 and at most 1.
    random_state : int, RandomState instance or None, default=None
        Draws which rows are checked.

    See Also
    --------
    spinney.certify : Bounds the disagreement once, on a fixed number of rows.

    Notes
    -----
    *What is monitored.* The disagreement with the model's own predictions, against the
    classifier's `max_disagreement`. With a bound for each class, the evidence is the
    mean over the classes.

    *Over which randomness.* If every live row disagrees with a probability of at most
    `max_disagreement`, given all rows before it, an alarm is raised *ever* with a
    probability of at most 5 %, however long it runs and however often it is checked:
    the e-value is then a mixture of likelihood ratios and a supermartingale, and the
    alarm is at 20 [1]_. The interval of `status` holds at all times simultaneously with
    a probability of 95 % for independent rows. (With a promise on average, a classifier
    may exceed its bound from the start, by chance; that is worth an alarm, too.)

    *Several processes.* Each has its own monitor. Add up their counts with `merge` in
    one place, and use the alarm of the result. Each single monitor raises a false alarm
    with a probability of up to 5 %, so using the alarms of all of them raises more.

    References
    ----------
    .. [1] A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, "Game-theoretic statistics and
       safe anytime-valid inference", Statistical Science 38(4), 2023.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(6000, random_state=0)
    >>> model = RandomForestClassifier(50, max_depth=8, random_state=0)
    >>> model = model.fit(X[:1000], y[:1000])
    >>> fast = spinney.accelerate(
    ...     model, X[1000:4000], max_disagreement=0.02, random_state=0
    ... )
    >>> monitor = spinney.Monitor(fast, share=0.1, random_state=0)
    >>> labels = monitor.predict(X[4000:])
    >>> monitor.status()["n_seen"]
    2000
    >>> monitor.alarm
    False
    """

    def __init__(
        self, classifier: Any, *, share: float = 0.01, random_state: Any = None
    ) -> None:
        for method in ("predict", "predict_model"):
            if not callable(getattr(classifier, method, None)):
                msg = (
                    "classifier must be a fitted classifier of spinney, with predict "
                    f"and predict_model, got {type(classifier).__name__} without "
                    f"{method}. spinney.accelerate makes one."
                )
                raise InvalidArgumentError(msg)
        bounds = bounds_of(classifier)
        check_is_fitted(classifier)
        numeric = isinstance(share, Real) and not isinstance(share, bool)
        if not numeric or not 0.0 < share <= 1.0:
            msg = (
                f"share must be above 0 and at most 1, got {share!r}. It is the share "
                "of the live rows to check: write 0.01 for one in a hundred."
            )
            raise InvalidArgumentError(msg)
        self.classifier = classifier
        self.share = float(share)
        self._bounds = bounds
        self.max_disagreement = max(self._bounds.values())
        self._by_class = {label: [0, 0] for label in self._bounds}
        self._rng = check_random_state(random_state)
        self._n_seen = self._n_checked = self._n_disagreements = 0
        self._alarm_at: int | None = None
        self._lock = ForkSafeLock()
        # Numbers of the next rows to check, ascending; rows are counted as they pass.
        self._n_passed = 0
        self._upcoming = self._drawn(-1)
        self._next = int(self._upcoming[0])

    # Locks do not travel; everything else does.
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = ForkSafeLock()

    # ---------------------------------------------------------------- predicting

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict as the classifier does, and check some of the rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels of the classifier, also for rows that are checked.
        """
        X = as_known_frame(X)
        labels: NDArray[Any] = self.classifier.predict(X)
        chosen = self._choose(len(labels))
        if len(chosen):
            full = self.classifier.predict_model(rows_at(X, chosen))
            self._add(self._counts(labels[chosen], full))
        return labels

    def predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return a lightweight callable that predicts one row at a time, checking some.

        Returns
        -------
        predictor : callable
            Takes what the classifier's own ``predictor()`` takes.
        """
        answer = self.classifier.predictor()
        check = self.classifier.predict_model

        def monitored(row: NDArray[np.floating]) -> Any:
            label = answer(row)
            if len(self._choose(1)):
                full = check(self._table(row))[0]
                self._add(self._counts(np.array([label]), np.array([full])))
            return label

        return monitored

    def _table(self, row: Any) -> Any:
        """Return a row, of any kind that a predictor takes, as `predict` takes it."""
        names = getattr(self.classifier, "feature_names_in_", None)
        if not hasattr(self.classifier, "n_features_in_"):
            return [row]  # one text, for a pipeline that vectorises it
        if isinstance(row, np.ndarray) and (
            names is None or find_spec("pandas") is None
        ):
            return row.reshape(1, -1)
        if isinstance(row, Mapping) and names is None:
            known = self.classifier.forest_.feature_names
            row = values_by_name(row, known, self.classifier.n_features_in_)
        return row_as_table(row, len(row), names)

    def certify(self, X: Any) -> Certificate:
        """Check every row given, and bound the disagreement over all checks so far.

        Unlike `spinney.certify`, it may be called repeatedly with more rows, until
        the bound is good enough.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Held-out rows, not used to train or fit the classifier.

        Returns
        -------
        certificate : Certificate
            For all rows checked so far. All certificates of this monitor hold together
            with a probability of 95 %.
        """
        X = as_known_frame(X)
        n_rows = _num_samples(X)
        if n_rows:
            labels = self.classifier.predict(X)
            full = self.classifier.predict_model(X)
            with self._lock:
                self._n_seen += n_rows
            self._add(self._counts(labels, full))
        status = self.status()
        return Certificate(
            status["disagreement"] if status["n_checked"] else math.nan,
            status["upper"],
            status["n_checked"],
            status["n_disagreements"],
            CONFIDENCE,
        )

    # ---------------------------------------------------------------- what is known

    @property
    def alarm(self) -> bool:
        """Whether there is evidence that the bound is broken; stays set once raised."""
        return self._alarm_at is not None

    def status(self) -> dict[str, Any]:
        """Return all counts and estimates as plain numbers.

        Returns
        -------
        status : dict
            ``n_seen``, ``n_checked`` and ``n_disagreements`` rows; ``disagreement``
            (None before the first check) with the ends ``lower`` and ``upper`` of an
            interval that holds at all times with ``confidence``; ``max_disagreement``;
            ``e_value``, the evidence against it now; ``alarm``, and after how many
            checks it was raised, ``alarm_at``. If the classifier has bounds for
            classes, ``by_class`` is a list with the counts and the bound of each, and
            ``max_disagreement`` is the largest.
        """
        with self._lock:
            n, k = self._n_checked, self._n_disagreements
            counts = {"n_seen": self._n_seen, "n_checked": n, "n_disagreements": k}
            alarm_at = self._alarm_at
            log_e = self._log_e()
            by_class = [
                {
                    "label": label,
                    "n_checked": of_class[0],
                    "n_disagreements": of_class[1],
                    "max_disagreement": self._bounds[label],
                }
                for label, of_class in self._by_class.items()
                if label is not ALL_ROWS
            ]
        lower, upper = confidence_sequence(k, n)
        return {
            **counts,
            "disagreement": k / n if n else None,
            "lower": lower,
            "upper": upper,
            "confidence": CONFIDENCE,
            "max_disagreement": self.max_disagreement,
            # Beyond what a float holds there is no doubt left.
            "e_value": math.exp(min(log_e, 700.0)),
            "alarm": alarm_at is not None,
            "alarm_at": alarm_at,
            **({"by_class": by_class} if by_class else {}),
        }

    def merge(self, other: Monitor | Mapping[str, Any]) -> Monitor:
        """Add the counts of another monitor of the same classifier.

        Parameters
        ----------
        other : Monitor or mapping
            The other one, or its `status` (from another process, or a file). Its rows
            must not have been added before.

        Returns
        -------
        self : Monitor
            With the counts of both, and an alarm if these together raise one. The other
            monitor's alarm is not copied, see Notes of the class.
        """
        if other is self:
            msg = (
                "A monitor cannot be merged with itself: its rows would count twice. "
                "Merge another monitor of the same classifier."
            )
            raise InvalidArgumentError(msg)
        status = other.status() if isinstance(other, Monitor) else other
        seen, counts = counts_in(status, self._bounds)
        with self._lock:
            self._n_seen += seen
        self._add(counts)
        return self

    def to_prometheus(self, prefix: str = "spinney") -> str:
        """Return the status in the text format that Prometheus reads.

        Parameters
        ----------
        prefix : str, default="spinney"
            Prefix of the metric names.

        Returns
        -------
        text : str
            One metric for each number, with a help line.
        """
        return as_prometheus(self.status(), prefix)

    def __repr__(self) -> str:
        status = self.status()
        state = "ALARM" if status["alarm"] else "no alarm"
        return (
            f"<Monitor: {state}; {status['n_disagreements']:,} of "
            f"{status['n_checked']:,} checked rows disagreed "
            f"({status['n_seen']:,} seen); bound {self.max_disagreement:g}>"
        )

    # ---------------------------------------------------------------- counting

    def _drawn(self, last: int) -> NDArray[np.int64]:
        """Return the numbers of the next rows to check, after row number `last`."""
        gaps = self._rng.geometric(self.share, size=N_DRAWN)
        # Where the share is tiny, gaps do not fit into a number and come out negative.
        gaps = np.where((gaps < 1) | (gaps > LARGEST_GAP), LARGEST_GAP, gaps)
        return last + np.cumsum(gaps, dtype=np.int64)

    def _choose(self, n_rows: int) -> NDArray[np.int64]:
        """Return which of the next rows to check, and count them as seen."""
        with self._lock:
            self._n_seen += n_rows
            start = self._n_passed
            self._n_passed = end = start + n_rows
            if self._next >= end:
                return _NONE
            parts = [self._upcoming]
            while parts[-1][-1] <= end:  # one is left
                parts.append(self._drawn(int(parts[-1][-1])))
            upcoming = np.concatenate(parts)
            n_chosen = int(np.searchsorted(upcoming, end))
            self._upcoming = upcoming[n_chosen:].copy()
            self._next = int(self._upcoming[0])
        return upcoming[:n_chosen] - start

    def _counts(
        self, labels: NDArray[Any], full: NDArray[Any]
    ) -> dict[Any, tuple[int, int]]:
        """Return rows and disagreements among them, for each bound."""
        differs = labels != full
        if ALL_ROWS in self._bounds:
            return {ALL_ROWS: (len(full), int(np.count_nonzero(differs)))}
        counts = {}
        for label in self._bounds:
            here = full == label
            counts[label] = (
                int(np.count_nonzero(here)),
                int(np.count_nonzero(differs & here)),
            )
        return counts

    def _log_e(self) -> float:
        """Return the evidence against the bounds: the mean of that against each."""
        return mean_log_e(self._by_class, self._bounds)

    def _add(self, counts: Mapping[Any, tuple[int, int]]) -> None:
        """Count checks, and see whether they raise an alarm."""
        with self._lock:
            for label, (checked, wrong) in counts.items():
                self._by_class[label][0] += checked
                self._by_class[label][1] += wrong
                self._n_checked += checked
                self._n_disagreements += wrong
            wrong_now = any(wrong for _, wrong in counts.values())
            if (
                self._alarm_at is None
                and wrong_now
                and self._log_e() >= -math.log(1.0 - CONFIDENCE)
            ):
                self._alarm_at = self._n_checked
