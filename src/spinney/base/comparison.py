"""What ways of asking a model were tried, what each gave, and which was kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from spinney.errors import FormatError


@dataclass(frozen=True)
class Trial:
    """One way of asking a model, as it did on rows kept back.

    Parameters
    ----------
    name : str
        What was tried, in words.
    method : {"sequential", "cascade", "all trees"}
        Which method is behind it.
    aimed_at : float
        The disagreement it was fitted to; NaN for all trees.
    disagreement : float
        Share of the rows kept back that are answered otherwise than by the model.
    trees : float
        Trees asked for a row, on average.
    microseconds_batch : float
        Time per row in a batch; NaN if it was not measured.
    microseconds_single : float
        Time for a row that comes alone; NaN if it was not measured.
    kept_promise : bool
        Whether it disagreed no more often than was allowed.
    chosen : bool
        Whether this is what is used.
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


@dataclass(frozen=True)
class Acceleration:
    """A comparison of ways to ask a model.

    Parameters
    ----------
    trials : tuple of Trial
        What was tried; all trees come first.
    n_trees : int
        Trees of the model.
    n_fitted : int
        Rows that order and thresholds were fitted to.
    n_compared : int
        Other rows, on which the trials were compared.
    max_disagreement : float
        Share of the rows that may be answered otherwise than by the model.
    confidence : float or None
        Confidence that was asked for.
    outcome : str
        What came out, in a sentence or two.
    """

    trials: tuple[Trial, ...]
    n_trees: int
    n_fitted: int
    n_compared: int
    max_disagreement: float
    confidence: float | None
    outcome: str

    @property
    def chosen(self) -> Trial:
        """The trial that was kept."""
        return next(trial for trial in self.trials if trial.chosen)

    def __str__(self) -> str:
        rows = [("", "trees", "disagree", "us/row batch", "us/row single", "")]
        for trial in self.trials:
            verdict = "kept" if trial.chosen else ""
            if not trial.kept_promise:
                verdict = "breaks the bound"
            rows.append(
                (
                    trial.name,
                    f"{trial.trees:.1f}",
                    f"{trial.disagreement:.3%}",
                    _number(trial.microseconds_batch),
                    _number(trial.microseconds_single),
                    verdict,
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place in (0, 5) else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        head = (
            f"Compared on {self.n_compared:,} rows kept back; at most "
            f"{self.max_disagreement:.3g} of them may be answered otherwise than by "
            "the model."
        )
        return "\n".join([head, *lines, self.outcome])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold.

        Returns
        -------
        parts : dict
            Numbers, texts, lists; None where a number is missing.
        """
        parts = asdict(self)
        parts["trials"] = [
            {name: _none_for_nan(value) for name, value in trial.items()}
            for trial in parts["trials"]
        ]
        return parts

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> Acceleration:
        """Make a comparison of what `to_dict` has returned.

        Parameters
        ----------
        parts : mapping
            Perhaps from a file that somebody has forged: all of it is checked.

        Returns
        -------
        acceleration : Acceleration
            The comparison.
        """
        trials = parts.get("trials")
        if not isinstance(trials, list) or not 1 <= len(trials) <= 100:
            msg = "its comparison must have trials"
            raise FormatError(msg)
        made = cls(
            tuple(Trial(**_checked(Trial, trial)) for trial in trials),
            **_checked(cls, {**parts, "trials": ()}, skip="trials"),
        )
        if sum(trial.chosen for trial in made.trials) != 1:
            msg = "exactly one of its trials must be chosen"
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


def _checked(cls: type, parts: Any, skip: str = "") -> dict[str, Any]:
    """Return values for the fields of a dataclass, or say what is wrong."""
    wanted = {field.name: str(field.type) for field in fields(cls)}
    if not isinstance(parts, Mapping) or set(parts) != set(wanted):
        msg = f"a {cls.__name__} must have the parts {', '.join(wanted)}"
        raise FormatError(msg)
    values = {}
    for name, kind in wanted.items():
        if name == skip:
            continue
        value = parts[name]
        right = isinstance(value, _KINDS[kind])
        if not right or (isinstance(value, bool) and kind != "bool"):
            msg = f"{name} of a {cls.__name__} must be of type {kind}"
            raise FormatError(msg)
        values[name] = math.nan if value is None and kind == "float" else value
    return values


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
