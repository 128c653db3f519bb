"""Early-exit candidates compared side by side, and which one was chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from spinney.base.wording import in_columns, number, percent, whole
from spinney.calibration.class_changes import ClassChange
from spinney.errors import FormatError

# Columns of the table that people see.
HEADINGS = ("candidate", "trees", "differ", "batch, µs", "single, µs", "verdict")
# Columns of the table of predicted classes, and how many classes it shows.
HEADINGS_OF_CLASSES = ("class", "by the model", "early exit", "lost", "share lost")
N_CLASSES = 20
# What the list of candidates is called in files.
NAME_IN_FILES = "trials"
# How early a candidate exits: as in the comparison, or as the promise allows.
COMPARED, PROMISED = "as compared", "as promised"


@dataclass(frozen=True)
class Candidate:
    """A way to evaluate a model, and its results on held-out rows.

    Parameters
    ----------
    name : str
        What it is, in words.
    method : {"sequential", "cascade", "all trees"}
        Which method is behind it.
    aimed_at : float
        The disagreement it was fitted to; NaN for all trees.
    disagreement : float
        Share of the held-out rows whose prediction differs from the model's.
    trees : float
        Trees evaluated for a row, on average.
    microseconds_batch : float
        Time per row in a batch; NaN if it was not measured.
    microseconds_single : float
        Time for a single row; NaN if it was not measured.
    kept_promise : bool
        Whether it disagreed no more often than was allowed.
    chosen : bool
        Whether this is what is used.
    level : {"as compared", "as promised"}, default="as compared"
        How early rows exit: as early as appeared to keep the bound on the comparison
        rows, or, for the fastest candidate, as early as the promise allows. Its
        disagreement is then measured on the rows held out for the promise.
    """

    name: str
    method: str
    aimed_at: float
    disagreement: float
    trees: float
    microseconds_batch: float
    microseconds_single: float
    kept_promise: bool
    chosen: bool
    level: str = COMPARED

    @property
    def verdict(self) -> str:
        """The verdict in words; empty if it was not chosen."""
        if not self.kept_promise:
            return "breaks the bound"
        return "chosen" if self.chosen else ""


@dataclass(frozen=True)
class Comparison:
    """Comparison of several ways to evaluate a model.

    Parameters
    ----------
    candidates : tuple of Candidate
        What was compared; all trees come first.
    n_trees : int
        Trees of the model.
    n_fitted : int
        Rows that order and thresholds were fitted to.
    n_compared : int
        Held-out rows, on which the candidates were compared.
    max_disagreement : float or None
        Share of the predictions that may differ from the model's; the largest, if each
        class has a bound of its own; None if there is no such bound.
    confidence : float or None
        Requested confidence.
    outcome : str
        The result, in a sentence or two.
    class_changes : tuple of ClassChange, default=()
        How often each class is predicted on the rows that the promise was established
        on, by the model and by what was chosen. Empty if no prediction ever differs.
    has_class_bounds : bool, default=False
        Whether classes have bounds of their own.
    """

    candidates: tuple[Candidate, ...]
    n_trees: int
    n_fitted: int
    n_compared: int
    max_disagreement: float | None
    confidence: float | None
    outcome: str
    class_changes: tuple[ClassChange, ...] = ()
    has_class_bounds: bool = False

    @property
    def chosen(self) -> Candidate:
        """The candidate that is used."""
        return next(one for one in self.candidates if one.chosen)

    @property
    def description(self) -> str:
        """What was compared on which rows, in a sentence or two."""
        words = f"Compared on {self.n_compared:,} held-out rows"
        if self.has_class_bounds:
            words += ", with a bound for each class"
        elif self.max_disagreement is not None:
            words += (
                f", where at most {percent(self.max_disagreement)} of the predictions "
                "may differ from the model's"
            )
        words += "; times are per row."
        if any(one.level == PROMISED for one in self.candidates):
            words += (
                "\nBelow the fastest: the same candidate, exiting as early as the "
                "promise allows, on the rows held out for it."
            )
        return words

    def cells(self) -> list[tuple[str, ...]]:
        """Return the comparison as a table of strings, for display.

        Returns
        -------
        rows : list of tuple of str
            One row per candidate, and one more for the fastest as promised;
            `HEADINGS` names the columns.
        """
        promised = [one.name for one in self.candidates if one.level == PROMISED]
        return [
            (
                f"  {PROMISED}" if one.level == PROMISED else one.name,
                number(one.trees),
                percent(one.disagreement),
                number(one.microseconds_batch),
                number(one.microseconds_single),
                "fastest"
                if one.name in promised and one.level == COMPARED
                else one.verdict or ("not faster" if one.level == PROMISED else ""),
            )
            for one in self.candidates
        ]

    def cells_of_classes(self) -> list[tuple[str, ...]]:
        """Return how often each class is predicted, as a table of strings.

        Returns
        -------
        rows : list of tuple of str
            One row per class, the first `N_CLASSES` of them; `HEADINGS_OF_CLASSES`
            names the columns.
        """
        changes = self.class_changes
        rows: list[tuple[str, ...]] = [
            (
                str(one.label),
                whole(one.n_full),
                whole(one.n_early),
                whole(one.n_lost),
                percent(one.n_lost / one.n_full if one.n_full else None),
            )
            for one in changes[:N_CLASSES]
        ]
        if len(changes) > N_CLASSES:
            rows.append((f"{len(changes) - N_CLASSES} more", "", "", "", ""))
        return rows

    def __str__(self) -> str:
        table = in_columns([HEADINGS, *self.cells()], left=(0, len(HEADINGS) - 1))
        parts = [self.description, table, self.outcome]
        if self.class_changes:
            parts.append(in_columns([HEADINGS_OF_CLASSES, *self.cells_of_classes()]))
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold.

        Returns
        -------
        parts : dict
            Numbers, strings, lists; None where a number is missing. The candidates are
            called "trials", as in files.
        """
        parts = asdict(self)
        candidates = [
            {name: _none_for_nan(value) for name, value in candidate.items()}
            for candidate in parts.pop("candidates")
        ]
        parts["class_changes"] = [asdict(one) for one in self.class_changes]
        return {NAME_IN_FILES: candidates, **parts}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Comparison:
        """Return a comparison from what `to_dict` has returned.

        Parameters
        ----------
        parts : mapping
            From a file that may be forged: all of it is checked.

        Returns
        -------
        comparison : Comparison
            The comparison.
        """
        candidates = parts.get(NAME_IN_FILES)
        if not isinstance(candidates, list) or not 1 <= len(candidates) <= 100:
            msg = f"its comparison must have {NAME_IN_FILES}"
            raise FormatError(msg)
        rest = {name: value for name, value in parts.items() if name != NAME_IN_FILES}
        # Files of older versions do not have it.
        changes = rest.pop("class_changes", [])
        if not isinstance(changes, list):
            msg = "class_changes of its comparison must be a list"
            raise FormatError(msg)
        made = cls(
            tuple(_candidate(one) for one in candidates),
            class_changes=tuple(_class_change(one) for one in changes),
            # Nor this one.
            **_checked(
                cls,
                {"has_class_bounds": False, **rest},
                skip=("candidates", "class_changes"),
            ),
        )
        if sum(one.chosen for one in made.candidates) != 1:
            msg = f"exactly one of its {NAME_IN_FILES} must be chosen"
            raise FormatError(msg)
        return made


# What a field may hold besides its own type.
_KINDS = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (float, int, type(None)),
    "float | None": (float, int, type(None)),
}


def _candidate(parts: Any) -> Candidate:
    """Return a candidate from a file, or raise `FormatError`."""
    if isinstance(parts, Mapping) and "level" not in parts:
        parts = {**parts, "level": COMPARED}  # files of older versions do not have it
    made = Candidate(**_checked(Candidate, parts))
    if made.level not in (COMPARED, PROMISED):
        msg = f"level of a Candidate must be {COMPARED!r} or {PROMISED!r}"
        raise FormatError(msg)
    return made


def _class_change(parts: Any) -> ClassChange:
    """Return a class change from a file, or raise `FormatError`."""
    if not isinstance(parts, Mapping) or not isinstance(
        parts.get("label"), (str, int, float)
    ):
        msg = "a ClassChange must have a label that is a string or a number"
        raise FormatError(msg)
    rest = {name: value for name, value in parts.items() if name != "label"}
    return ClassChange(parts["label"], **_checked(ClassChange, rest, skip=("label",)))


def _checked(cls: type, parts: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return values for the fields of a dataclass, or raise `FormatError`."""
    wanted = {one.name: str(one.type) for one in fields(cls) if one.name not in skip}
    if not isinstance(parts, Mapping) or set(parts) != set(wanted):
        msg = f"a {cls.__name__} must have the parts {', '.join(wanted)}"
        raise FormatError(msg)
    values = {}
    for name, kind in wanted.items():
        value = parts[name]
        right = isinstance(value, _KINDS[kind])
        if not right or (isinstance(value, bool) and kind != "bool"):
            msg = f"{name} of a {cls.__name__} must be of type {kind}"
            raise FormatError(msg)
        if isinstance(value, float) and not math.isfinite(value):
            msg = f"{name} of a {cls.__name__} must be finite"
            raise FormatError(msg)
        values[name] = math.nan if value is None and kind == "float" else value
    return values


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
