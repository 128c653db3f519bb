"""The page of a classifier that exits early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.comparison import HEADINGS, HEADINGS_OF_CLASSES, Comparison
from spinney.base.wording import number, of_rows, percent, ratio, times, whole
from spinney.calibration.class_changes import ClassChange
from spinney.calibration.promise import Promise
from spinney.report.contents import Page, Section, Table, Tile
from spinney.report.figures_stopping import (
    figure_of_counts,
    figure_of_distribution,
    figure_of_stopping,
    trees_word,
)
from spinney.report.figures_sweep import figure_of_sweep, slider_of
from spinney.report.page_probabilities import section_of_probabilities
from spinney.report.stopping import DROPPED

TITLES = {
    "sequential": "Votes stopped early",
    "cascade": "Scores stopped early",
    "all trees": "All trees evaluated",
}


def page_of_stopping(report: Mapping[str, Any], facts: list[tuple[str, str]]) -> Page:
    """Return the parts of the page.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    facts : list of (str, str)
        What the report is about.
    """
    sections = [
        Section("promise", "What is promised", promise(report)),
        _decisions(report),
    ]
    if report["kind"] != "all trees":
        sections += [_work(report), _levels(report)]
        sections.append(_classes(report))
        if report.get("probabilities"):
            sections.append(section_of_probabilities(report))
    if report["acceleration"]:
        sections.append(_comparison(report["acceleration"]))
    return Page(
        TITLES[report["kind"]], _summary(report), _tiles(report), sections, facts
    )


def _summary(report: Mapping[str, Any]) -> str:
    n_trees, trees = report["model"]["n_trees"], report["trees"]
    differing = report["disagreement"]
    n_rows = report["rows"]["n_rows"]
    word = trees_word(report)
    if report["kind"] == "all trees":
        return (
            f"Every row is answered by all {n_trees:,} {word}, exactly as the model "
            f"itself answers. This page shows what that takes on {n_rows:,} rows."
        )
    return (
        f"On {n_rows:,} rows, {number(trees['mean'])} of {n_trees:,} {word} were "
        "evaluated per row on average; the label differs from the model's own for "
        f"{of_rows(differing['n_disagreements'], n_rows)}."
    )


def _tiles(report: Mapping[str, Any]) -> list[Tile]:
    trees, differing = report["trees"], report["disagreement"]
    n_trees, n_rows = report["model"]["n_trees"], report["rows"]["n_rows"]
    clock, error = report["microseconds"], report["error"]
    word = trees_word(report)
    if report["kind"] == "all trees":
        tiles = [
            Tile(f"{n_trees:,}", f"{word} per row", "all of them, for every row"),
            Tile(
                f"{number(clock['batch'])} µs",
                "per row, in a batch",
                f"measured here on {clock['n_rows']:,} rows",
            ),
        ]
        if clock["single"] is not None:
            tiles.append(
                Tile(
                    f"{number(clock['single'])} µs",
                    "for a row alone",
                    f"measured here on {clock['n_single_rows']:,} rows",
                )
            )
        if error:
            tiles.append(
                Tile(
                    percent(error["full"]), "of the answers wrong", "against the truth"
                )
            )
        return tiles
    allowed = _allowed(report)
    tiles = [
        Tile(
            number(trees["mean"]),
            f"of {n_trees:,} {word} per row",
            f"{percent(trees['share'])} of all; half of the rows need at most "
            f"{number(trees['median'])}, 95 % at most {number(trees['percentile_95'])}",
        ),
        Tile(
            percent(differing["share"]),
            "answered differently",
            f"{of_rows(differing['n_disagreements'], n_rows)}; "
            + (
                f"{percent(differing['with_reference'])} differ from the vote of all "
                f"{word}, {allowed}"
                if differing["reference_with_model"]
                else allowed
            ),
        ),
        Tile(
            times(ratio(clock["batch_full"], clock["batch"])),
            "as fast as all trees" if word == "trees" else "as fast as all voters",
            f"{number(clock['batch'])} µs per row against "
            f"{number(clock['batch_full'])} µs, in a batch of {clock['n_rows']:,}",
        ),
    ]
    if clock["single"] is not None:
        tiles.append(
            Tile(
                times(ratio(clock["single_full"], clock["single"])),
                "as fast for a row alone",
                f"{number(clock['single'])} µs against {number(clock['single_full'])} "
                "µs, one row at a time",
            )
        )
    if error:
        tiles.append(
            Tile(
                percent(error["early"]),
                "of the answers wrong",
                f"{percent(error['full'])} with all {word}, against the truth",
            )
        )
    return tiles


def _allowed(report: Mapping[str, Any]) -> str:
    """Return what is allowed, in a few words."""
    settings, promised = report["settings"], report["promise"]
    words = []
    if settings["max_disagreement"] is not None:
        by_class = promised is not None and promised["by_class"]
        of = " of the rows of each class, at most," if by_class else ""
        words.append(f"{percent(settings['max_disagreement'])}{of} allowed")
    if settings["max_accuracy_loss"] is not None:
        loss = percent(settings["max_accuracy_loss"])
        words.append(f"{loss} more errors allowed")
    return " and ".join(words)


def promise(report: Mapping[str, Any]) -> list[str]:
    """Return in words what is known about other rows than those seen.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    if report["kind"] == "all trees":
        return [
            "Nothing ever differs: all trees are evaluated, and the answers are those "
            "of the model, on these rows and on all others."
        ]
    differing, parts = report["disagreement"], report["promise"]
    if parts is None:
        said = [
            "Nothing is promised: the classifier was fitted to "
            f"{percent(report['settings']['max_disagreement'])} on some rows, which "
            "says little about others."
        ]
    else:
        said = [str(Promise.from_dict(parts))]
        if parts["kind"] in ("expected", "confidence"):
            said[0] += (
                " Rows of another kind (drift) invalidate it, and so do rows that the "
                "model was trained on."
            )
    if parts is None or parts["kind"] != "never":
        said.append(
            "If the rows of this report played no part in training or fitting, they "
            f"prove that at most {percent(differing['upper_bound_if_fresh'])} of new "
            "rows of the same kind differ, with 95 % confidence."
        )
    if differing["reference_with_model"]:
        said.append(
            "The bound is on the disagreement with the majority vote of all trees, "
            f"which was {percent(differing['with_reference'])} here. The model itself "
            "decides in another way, and differs from that vote on "
            f"{percent(differing['reference_with_model'])} of these rows, however many "
            "trees are evaluated."
        )
    return said


def _decisions(report: Mapping[str, Any]) -> Section:
    figures = [figure_of_distribution(report)]
    words = []
    if report["kind"] != "all trees":
        stopping = figure_of_stopping(report)
        if stopping is not None:
            figures.append(stopping)
        elif "fan" in report["method"]:
            words = [
                "The rule 'fan' has thresholds for every bin of scores at every step, "
                "too many for a picture."
            ]
        elif report["method"].endswith(DROPPED):
            words = [
                "A class is dropped when it is too far behind the one in front, by a "
                "bound for each pair of classes and each exit point, too many for a "
                "picture. Its trees are then left out, and a row is decided when one "
                "class is left."
            ]
        else:
            words = [_without_thresholds(report)]
    return Section("decisions", "How rows are decided", words, figures)


def _without_thresholds(report: Mapping[str, Any]) -> str:
    """Return when rows are decided, where no number of theirs decides about it."""
    word = trees_word(report)
    n_trees = report["model"]["n_trees"]
    last = max(at["trees"] for at in report["trees"]["done"])
    found = report["stopping"]
    if found is not None and found["all_done_after"] is not None:
        last = found["all_done_after"]
    if last == n_trees:
        return f"No row is ever decided before the last of the {n_trees:,} {word}."
    if last == 0:
        return f"Every row gets the same answer, before any of the {n_trees:,} {word}."
    return f"Every row is decided after {last:,} of {n_trees:,} {word}."


def _work(report: Mapping[str, Any]) -> Section:
    word = trees_word(report)
    done = report["trees"]["done"]
    table = Table(
        ("Rows done", f"After {word}"),
        [(percent(at["share"]), f"{at['trees']:,}") for at in done],
        caption=f"How many {word} are enough for how many rows",
    )
    return Section(
        "work", f"{word.capitalize()} evaluated", [], [figure_of_counts(report)], table
    )


def _levels(report: Mapping[str, Any]) -> Section:
    sweep = report["sweep"]
    title = "What another level would give"
    if not sweep["points"]:
        return Section("levels", title, [sweep["reason"]])
    words = (
        f"The same method, fitted anew at other levels on {sweep['n_fitted']:,} of the "
        f"rows of this report and measured on {sweep['n_measured']:,} others. "
        "Nothing is proven at these levels."
    )
    if sweep["n_fitted"] + sweep["n_measured"] < report["rows"]["n_rows"]:
        words += " The rows were drawn from all rows of the report."
    figure = figure_of_sweep(report)
    return Section(
        "levels", title, [words], [figure], slider=slider_of(report, figure.chart)
    )


def _classes(report: Mapping[str, Any]) -> Section:
    changes = [ClassChange(**parts) for parts in report["classes"]]
    rows = [
        (
            str(one.label),
            whole(one.n_full),
            whole(one.n_early),
            whole(one.n_lost),
            percent(ratio(one.n_lost, one.n_full)),
        )
        for one in changes
    ]
    words = "How often each class is predicted for the rows of this report."
    bound = report["settings"]["max_disagreement"] or 0.0
    by_class = report["promise"] is not None and report["promise"]["by_class"]
    lost = any(one.vanishes or one.loses_much(bound) for one in changes)
    if lost and not by_class:
        words += (
            " Rare classes lose much: the bound is on all rows together. "
            "per_class=True protects them."
        )
    headings = tuple(heading.capitalize() for heading in HEADINGS_OF_CLASSES)
    return Section("classes", "Predicted classes", [words], table=Table(headings, rows))


def _comparison(acceleration: Mapping[str, Any]) -> Section:
    compared = Comparison.from_dict(acceleration)
    return Section(
        "comparison",
        "What was compared",
        [
            f"Candidates that spinney.accelerate fitted to {compared.n_fitted:,} rows. "
            + compared.description
        ],
        table=Table(
            tuple(heading.capitalize() for heading in HEADINGS),
            compared.cells(),
            marked=compared.candidates.index(compared.chosen),
        ),
    )
