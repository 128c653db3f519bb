"""The page of a classifier that exits early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.comparison import HEADINGS, HEADINGS_OF_CLASSES, Comparison
from spinney.base.wording import number, of_rows, percent, ratio, times, whole
from spinney.calibration.class_changes import ClassChange
from spinney.report.contents import Page, Section, Table, Tile
from spinney.report.figures_stopping import (
    figure_of_counts,
    figure_of_distribution,
    figure_of_stopping,
    trees_word,
)
from spinney.report.figures_sweep import figure_of_sweep, slider_of
from spinney.report.page_probabilities import section_of_probabilities
from spinney.report.page_promise import (
    class_bounds_in_words,
    class_bounds_of,
    section_of_promise,
)
from spinney.report.stopping import DROPPED

TITLES = {
    "sequential": "Early exit by votes",
    "cascade": "Early exit by scores",
    "all trees": "All trees evaluated",
}

# Classes that a warning names.
MOST_NAMED = 5


def page_of_stopping(report: Mapping[str, Any], facts: list[tuple[str, str]]) -> Page:
    """Return the parts of the page.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    facts : list of (str, str)
        What the report is about.
    """
    sections = [section_of_promise(report)]
    if report["kind"] != "all trees":
        sections += [_classes(report), _levels(report), _work(report)]
    sections.append(_decisions(report))
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
            f"Every row is evaluated by all {n_trees:,} {word}, and predictions are "
            f"exactly the model's own. This page shows the time taken on {n_rows:,} "
            "rows."
        )
    return (
        f"On {n_rows:,} rows, {number(trees['mean'])} of {n_trees:,} {word} were "
        "evaluated per row on average; the label differs from the model's own for "
        f"{of_rows(differing['n_disagreements'], n_rows)}." + _speed_words(report)
    )


def _speed_words(report: Mapping[str, Any]) -> str:
    """Return how much faster that is than the model's own library."""
    clock = report["microseconds"]
    if not clock.get("original"):
        return ""
    factor = times(ratio(clock["batch_original"], clock["batch"])).removesuffix(" ×")
    return f" That is {factor} times as fast as {clock['original']}'s own predict."


def _tiles(report: Mapping[str, Any]) -> list[Tile]:
    trees, differing = report["trees"], report["disagreement"]
    n_trees, n_rows = report["model"]["n_trees"], report["rows"]["n_rows"]
    clock, error = report["microseconds"], report["error"]
    word = trees_word(report)
    if report["kind"] == "all trees":
        tiles = [
            Tile(f"{n_trees:,}", f"{word} per row", "all trees, for every row"),
            Tile(
                f"{number(clock['batch'])} µs",
                "per row, in a batch",
                _beside_original(clock, "batch", clock["n_rows"]),
            ),
        ]
        if clock["single"] is not None:
            tiles.append(
                Tile(
                    f"{number(clock['single'])} µs",
                    "for a single row",
                    _beside_original(clock, "single", clock["n_single_rows"]),
                )
            )
        if error:
            tiles.append(
                Tile(
                    percent(error["full"]),
                    "of the predictions wrong",
                    "against the truth",
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
            "predicted differently",
            f"{of_rows(differing['n_disagreements'], n_rows)}; "
            + (
                f"{percent(differing['with_reference'])} differ from the vote of all "
                f"{word}, {allowed}"
                if differing["reference_with_model"]
                else allowed
            ),
        ),
    ]
    tiles += _tiles_of_time(clock, word)
    if error:
        tiles.append(
            Tile(
                percent(error["early"]),
                "of the predictions wrong",
                f"{percent(error['full'])} with all {word}, against the truth",
            )
        )
    return tiles


def _beside_original(clock: Mapping[str, Any], kind: str, n_rows: int) -> str:
    """Return how a time of all trees compares with the model's own library."""
    original = clock.get(f"{kind}_original")
    if original is None:
        return f"measured here on {n_rows:,} rows"
    return (
        f"{number(original)} µs with the model's own predict: "
        f"{times(ratio(original, clock[kind]))} as fast"
    )


def _tiles_of_time(clock: Mapping[str, Any], word: str) -> list[Tile]:
    """Return how fast it is, beside the model's own library and all trees."""
    kinds = [("batch", f"in a batch of {clock['n_rows']:,}", "")]
    if clock["single"] is not None:
        kinds.append(("single", "one row at a time", ", for a single row"))
    tiles = []
    for kind, how, short in kinds:
        own, full = clock[kind], clock[f"{kind}_full"]
        original = clock.get(f"{kind}_original")
        beside = f"{number(full)} µs with all {word} in spinney"
        factor, whose = times(ratio(full, own)), f"as fast as all {word}{short}"
        if original is not None:
            factor = times(ratio(original, own))
            whose = f"as fast as the original model{short}"
            beside = f"{number(original)} µs with the model's own predict, {beside}"
        tiles.append(Tile(factor, whose, f"{number(own)} µs per row, {how}; {beside}"))
    return tiles


def _allowed(report: Mapping[str, Any]) -> str:
    """Return what is allowed, in a few words."""
    settings, by_class = report["settings"], class_bounds_of(report)
    words = []
    if by_class:
        words.append(f"up to {class_bounds_in_words(by_class)} allowed")
    elif settings["max_disagreement"] is not None:
        words.append(f"up to {percent(settings['max_disagreement'])} allowed")
    if settings["max_accuracy_loss"] is not None:
        loss = percent(settings["max_accuracy_loss"])
        words.append(f"up to {loss} more errors allowed")
    return " and ".join(words)


def _decisions(report: Mapping[str, Any]) -> Section:
    figures = [figure_of_distribution(report)]
    words = []
    if report["kind"] != "all trees":
        stopping = figure_of_stopping(report)
        if stopping is not None:
            figures.append(stopping)
        elif "fan" in report["method"]:
            words = [
                "The rule 'fan' has thresholds for every bin of scores at every exit "
                "point, too many to draw."
            ]
        elif report["method"].endswith(DROPPED):
            words = [
                "A class is dropped when it is too far behind the leading one, by a "
                "bound for each pair of classes and each exit point, too many to "
                "draw. Its trees are then skipped, and a row is decided when one "
                "class is left."
            ]
        else:
            words = [_without_thresholds(report)]
    return Section("decisions", "How rows are decided", words, figures)


def _without_thresholds(report: Mapping[str, Any]) -> str:
    """Return when rows are decided, if that does not depend on the row."""
    word = trees_word(report)
    n_trees = report["model"]["n_trees"]
    last = max(at["trees"] for at in report["trees"]["done"])
    found = report["stopping"]
    if found is not None and found["all_done_after"] is not None:
        last = found["all_done_after"]
    if last == n_trees:
        return f"No row is ever decided before the last of the {n_trees:,} {word}."
    if last == 0:
        return (
            f"Every row gets the same prediction, before any of the {n_trees:,} {word}."
        )
    return f"Every row is decided after {last:,} of {n_trees:,} {word}."


def _work(report: Mapping[str, Any]) -> Section:
    word = trees_word(report)
    done = report["trees"]["done"]
    table = Table(
        ("Rows decided", f"After {word}"),
        [(percent(at["share"]), f"{at['trees']:,}") for at in done],
        caption=f"Number of {word} after which a share of the rows is decided",
    )
    return Section(
        "work", f"{word.capitalize()} evaluated", [], [figure_of_counts(report)], table
    )


def _levels(report: Mapping[str, Any]) -> Section:
    sweep = report["sweep"]
    title = "Results at other bounds"
    if not sweep["points"]:
        return Section("levels", title, [sweep["reason"]])
    words = (
        f"All bounds are measured on the {sweep['n_measured']:,} rows of this report. "
        "At its own bound the classifier itself is measured, with the numbers at the "
        "top of the page. For every other bound the same method is fitted to one half "
        "of these rows, part of which is held out to establish the bound as fit "
        "does, and measured on the other half; then the halves are exchanged."
    )
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
    words = (
        "How often each class is predicted for the rows of this report, by the model "
        "itself and with early exit. A row is lost if the model assigns it to the "
        "class and early exit to another."
    )
    headings = tuple(heading.capitalize() for heading in HEADINGS_OF_CLASSES)
    return Section(
        "classes",
        "Predicted classes, before and after",
        [words],
        table=Table(headings, rows),
        warnings=_warnings_of_classes(report, changes),
    )


def _warnings_of_classes(
    report: Mapping[str, Any], changes: list[ClassChange]
) -> list[str]:
    """Return warnings about classes that are lost."""
    bound = report["settings"]["max_disagreement"] or 0.0
    gone = [f"“{one.label}”" for one in changes if one.vanishes]
    fewer = [
        f"“{one.label}” loses {percent(one.n_lost / one.n_full)} of its rows"
        for one in changes
        if one.loses_much(bound) and not one.vanishes
    ]
    said = []
    if gone:
        said.append(f"no longer predicted at all: {', '.join(gone[:MOST_NAMED])}")
    said += fewer[:MOST_NAMED]
    if not said:
        return []
    words = f"Classes are lost to early exit: {'; '.join(said)}."
    if report["promise"] is None or not report["promise"]["by_class"]:
        words += (
            " The bound is on all rows together, and a rare class is a small part of "
            "them. Pass per_class=True for a bound on each class."
        )
    return [words]


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
