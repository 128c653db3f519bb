"""The part of a page about probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import percent
from spinney.report.contents import Section, Table


def section_of_probabilities(report: Mapping[str, Any]) -> Section:
    """Return the section on the probabilities of rows that exit early.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    found = report["probabilities"]
    words = (
        "Rows evaluated by all trees have the model's own probabilities. Rows that "
        "exit early get the model's mean over calibration rows that exited in the "
        "same way: on these rows they differ from the model's own by "
        f"{percent(found['mean_difference'])} on average."
    )
    rows = [
        (
            "Rank correlation with the model's own",
            _decimal(found["rank_agreement"]),
            _decimal(1.0),
        )
    ]
    for name, key in (
        ("Area under the ROC curve", "roc_auc"),
        ("Calibration error", "calibration_error"),
    ):
        if found[key]:
            rows.append(
                (name, _decimal(found[key]["early"]), _decimal(found[key]["full"]))
            )
    return Section(
        "probabilities",
        "Probabilities",
        [words],
        table=Table(("", "Early exit", "All trees"), rows),
    )


def _decimal(value: float | None) -> str:
    """Return a number between 0 and 1 with four digits, a dash for none."""
    return "–" if value is None else f"{value:.4f}"
