"""What a fitted classifier promises about its predictions, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spinney.calibration.bounds import percent

KINDS = ("never", "each row", "expected", "confidence", "votes", "out of bag")
# Classes that are named one by one.
N_NAMED = 6


@dataclass(frozen=True)
class ClassBound:
    """A bound for the rows that the full ensemble assigns to one class.

    Parameters
    ----------
    label : Any
        The class.
    max_disagreement : float
        The bound.
    n_rows : int
        Calibration rows of this class that played no part in fitting.
    n_disagreements : int
        How many of them are assigned to another class.
    """

    label: Any
    max_disagreement: float
    n_rows: int
    n_disagreements: int


@dataclass(frozen=True)
class AccuracyBound:
    """A bound on errors of early exit minus errors of the full ensemble.

    Parameters
    ----------
    max_accuracy_loss : float
        The bound.
    n_harmed, n_helped : int
        Calibration rows that become wrong, and that become right.
    """

    max_accuracy_loss: float
    n_harmed: int
    n_helped: int


@dataclass(frozen=True)
class Promise:
    """How often predictions may differ from the full ensemble's, and on what basis.

    Parameters
    ----------
    kind : str
        ``"never"``: none ever differs. ``"each row"``: the bound holds for every
        single row, over the random order of the trees. ``"expected"``: it holds for new
        rows on average (risk control). ``"confidence"``: it holds for new rows with a
        stated probability. ``"votes"``: it holds on average over a distribution of
        votes that was given, and the random order. ``"out of bag"``: as estimated from
        the rows that the model was trained on.
    max_disagreement : float or None
        The bound on all rows together; with bounds on classes the largest of these.
        None if there is none.
    confidence : float or None
        The probability, for ``"confidence"``.
    n_rows : int
        Calibration rows that played no part in fitting, on which it was established.
    n_disagreements : int
        How many of them the classifier predicts differently from the full ensemble.
    by_class : tuple of ClassBound
        Bounds for the rows of each class, if there are any.
    accuracy : AccuracyBound or None
        A bound on the loss of accuracy, if there is one.
    """

    kind: str
    max_disagreement: float | None
    confidence: float | None = None
    n_rows: int = 0
    n_disagreements: int = 0
    by_class: tuple[ClassBound, ...] = ()
    accuracy: AccuracyBound | None = None

    def __str__(self) -> str:
        share = "" if self.max_disagreement is None else percent(self.max_disagreement)
        if self.kind == "never":
            return "Every prediction is that of the full ensemble."
        if self.kind == "each row":
            return (
                "For every row, the prediction differs with a probability of at most "
                f"{share} over the random order of the trees."
            )
        if self.kind == "votes":
            return (
                f"At most {share} of the predictions differ, on average over the "
                "random order of the trees and the given distribution of votes."
            )
        if self.kind == "out of bag":
            return (
                f"About {share} of the predictions differ, as estimated from "
                "out-of-bag votes."
            )
        how = "on average"
        if self.kind == "confidence":
            assert self.confidence is not None
            how = f"with {percent(self.confidence)} confidence"
        said = []
        if self.by_class:
            said.append(self._words_by_class(how))
        elif self.max_disagreement is not None:
            seen = f"{self.n_disagreements:,} of {self.n_rows:,} calibration rows did"
            said.append(f"at most {share} of the predictions differ, {how} ({seen})")
        if self.accuracy is not None:
            lost = self.accuracy
            said.append(
                f"at most {percent(lost.max_accuracy_loss)} more of the predictions "
                f"are wrong than with the full ensemble, {how} (of {self.n_rows:,} "
                f"calibration rows {lost.n_harmed:,} became wrong and "
                f"{lost.n_helped:,} right)"
            )
        if not self.n_rows:
            said = [words.partition(" (")[0] for words in said]
        return f"On new rows of the same kind, {'; and '.join(said)}."

    def _words_by_class(self, how: str) -> str:
        """Return what holds for the rows of each class."""
        bounds = {one.max_disagreement for one in self.by_class}
        if self.kind == "confidence":
            how += " for all classes together"
        if len(self.by_class) > N_NAMED:
            most = percent(max(bounds))
            each = most if len(bounds) == 1 else f"{percent(min(bounds))} to {most}"
            seen = f"{self.n_disagreements:,} of {self.n_rows:,} calibration rows did"
            return (
                f"of the rows that the full ensemble assigns to each of the "
                f"{len(self.by_class)} classes, at most {each} differ, {how} ({seen})"
            )
        each = ", ".join(
            f"{percent(one.max_disagreement)} of class {one.label!r} "
            f"[{one.n_disagreements:,} of {one.n_rows:,}]"
            for one in self.by_class
        )
        return (
            f"of the rows that the full ensemble assigns to a class, at most {each} "
            f"differ, {how} (in brackets: calibration rows that did)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the promise as plain values that JSON can hold."""
        parts = asdict(self)
        parts["by_class"] = [asdict(one) for one in self.by_class]
        return parts

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Promise:
        """Rebuild a promise from what `to_dict` returned.

        Parameters
        ----------
        parts : mapping
            Its values; files of older versions have no bounds on classes or accuracy.
        """
        rest = dict(parts)
        by_class = tuple(ClassBound(**one) for one in rest.pop("by_class", ()))
        accuracy = rest.pop("accuracy", None)
        return cls(
            **rest,
            by_class=by_class,
            accuracy=None if accuracy is None else AccuracyBound(**accuracy),
        )
