"""The section of a page about the promise: bounds, how they hold, and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import number, percent, ratio
from spinney.calibration.promise import Promise
from spinney.report.contents import Section, Table

# Below this probability, a disagreement above the bound is not put down to chance.
UNLIKELY = 0.01
MOST_CLASSES = 20
# Classes whose bounds are listed within a line.
MOST_LISTED = 6
HOW_SURELY = {
    "never": "always",
    "each row": "for every row, over the random order of the trees",
    "expected": "on average over new rows",
    "votes": "on average over the given distribution of votes",
    "out of bag": "an estimate from the training rows",
}


def section_of_promise(report: Mapping[str, Any]) -> Section:
    """Return the section on what holds for rows other than those of the report.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    title = "What is promised"
    if report["kind"] == "all trees":
        words = (
            "Predictions never differ from the model's own: all trees are evaluated, "
            "on these rows and on all others."
        )
        return Section("promise", title, [words, *_threshold(report)])
    parts, differing = report["promise"], report["disagreement"]
    if parts is None:
        said = [
            "There is no promise: the classifier was fitted to "
            f"{percent(report['settings']['max_disagreement'])} on its calibration "
            "rows, which says little about other rows."
        ]
    else:
        said = [str(Promise.from_dict(parts))]
        if parts["kind"] in ("expected", "confidence"):
            said[0] += (
                " It does not hold if new rows differ in kind from the calibration "
                "rows (drift), or for rows that the model was trained on."
            )
    said += _threshold(report)
    if parts is None or parts["kind"] != "never":
        said.append(
            "If the rows of this report played no part in training or fitting, they "
            f"prove that at most {percent(differing['upper_bound_if_fresh'])} of new "
            "rows from the same source differ, with 95 % confidence."
        )
    if differing["reference_with_model"]:
        said.append(
            "The bound is on the disagreement with the majority vote of all trees, "
            f"which was {percent(differing['with_reference'])} here. The model itself "
            "averages probabilities instead, and differs from that vote on "
            f"{percent(differing['reference_with_model'])} of these rows, however many "
            "trees are evaluated."
        )
    table = None
    if parts is not None:
        table = Table(
            ("What is bounded", "Bound", "On these rows", "Holds"), _bounds(report)
        )
    return Section(
        "promise", title, said, table=table, warnings=_warnings(report, table)
    )


def class_bounds_of(report: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return class labels and their bounds; empty if classes have none of their own.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    promise = report.get("promise")
    listed = [] if promise is None else promise["by_class"]
    return [(str(one["label"]), one["max_disagreement"]) for one in listed]


def class_bounds_in_words(bounds: list[tuple[str, float]]) -> str:
    """Return bounds for classes in a few words: each, or one or two for many.

    Parameters
    ----------
    bounds : list of (str, float)
        Class labels and their bounds.
    """
    shares = sorted({bound for _, bound in bounds})
    if len(shares) == 1:
        return f"{percent(shares[0])} of the rows of each class"
    if len(bounds) > MOST_LISTED:
        low, high = percent(shares[0]), percent(shares[-1])
        return f"{low} to {high} of the rows of a class"
    return ", ".join(f"{percent(bound)} of “{label}”" for label, bound in bounds)


def _threshold(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence about a decision threshold, if there is one."""
    threshold = report["settings"]["decision_threshold"]
    if threshold is None:
        return []
    second = report["model"]["classes"][-1]
    return [
        f"Decisions are those at the threshold {number(threshold)}: “{second}” is "
        "predicted where the model gives it at least this probability. All numbers on "
        "this page refer to these decisions."
    ]


def _bounds(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return each bound, the measured value, and in which sense the bound holds."""
    parts, differing = report["promise"], report["disagreement"]
    how = HOW_SURELY.get(parts["kind"], "")
    if parts["kind"] == "confidence":
        how = f"with {percent(parts['confidence'])} confidence"
    rows: list[tuple[str, ...]] = []
    lost = {str(one["label"]): one for one in report["classes"]}
    for one in parts["by_class"][:MOST_CLASSES]:
        seen = lost.get(str(one["label"]))
        measured = None if seen is None else ratio(seen["n_lost"], seen["n_full"])
        rows.append(
            (
                "Changed predictions, among rows that the model calls "
                f"“{one['label']}”",
                percent(one["max_disagreement"]),
                percent(measured),
                how,
            )
        )
    is_never = parts["kind"] == "never"
    if not parts["by_class"] and (parts["max_disagreement"] is not None or is_never):
        bound = 0.0 if is_never else parts["max_disagreement"]
        measured = (
            differing["with_reference"]
            if differing["reference_with_model"]
            else differing["share"]
        )
        rows.append(
            (
                "Changed predictions, among all rows",
                percent(bound),
                percent(measured),
                how,
            )
        )
    if parts["accuracy"] is not None:
        error = report["error"]
        added = None if error is None else error["early"] - error["full"]
        bound = parts["accuracy"]["max_accuracy_loss"]
        rows.append(
            ("Additional errors, among all rows", percent(bound), percent(added), how)
        )
    return rows


def _warnings(report: Mapping[str, Any], table: Table | None) -> list[str]:
    """Return a warning if these rows differ more often than allowed."""
    chance, parts = report["disagreement"].get("chance_of_so_many"), report["promise"]
    differing = report["disagreement"]
    if table is None or chance is None or parts["kind"] == "never":
        return []
    if (
        differing["reference_with_model"]
        or differing["share"] <= parts["max_disagreement"]
    ):
        return []
    if chance >= UNLIKELY:
        return []
    return [
        f"{percent(differing['share'])} of these rows differ, more than the "
        f"{percent(parts['max_disagreement'])} that is allowed on new rows, and by "
        "chance alone this many would differ with a probability of at most "
        f"{percent(chance)}. These rows may come from another distribution than the "
        "calibration rows."
    ]
