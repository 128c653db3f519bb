"""From the numbers of a report to the parts of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import date, number, percent, whole
from spinney.report.contents import Page
from spinney.report.page_promise import class_bounds_in_words, class_bounds_of
from spinney.report.page_pruned import page_of_budgeted, page_of_pruner
from spinney.report.page_stepping import page_of_anytime
from spinney.report.page_stopping import page_of_stopping


def page_of(report: Mapping[str, Any]) -> Page:
    """Return the parts of the page for what `collect` has found.

    Parameters
    ----------
    report : mapping
        Numbers and texts.
    """
    makers = {
        "sequential": page_of_stopping,
        "cascade": page_of_stopping,
        "all trees": page_of_stopping,
        "anytime": page_of_anytime,
        "pruning": page_of_pruner,
        "budgeted forest": page_of_budgeted,
    }
    return makers[report["kind"]](report, facts_of(report))


def facts_of(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the report is about: model, rows, version and date.

    Parameters
    ----------
    report : mapping
        Numbers and texts.
    """
    model, rows = report["model"], report["rows"]
    size = f"{model['n_trees']:,} {'tree' if model['n_trees'] == 1 else 'trees'}"
    if model["n_nodes"] is None:
        size = f"{model['n_trees']:,} voters"
    else:
        size += f", {model['n_nodes']:,} nodes, depth up to {model['depth']}"
    shown = ", ".join(model["classes"][:6])
    hidden = model["n_classes"] - min(6, len(model["classes"]))
    classes = f"{model['n_classes']:,}: {shown}"
    if hidden:
        classes += f" and {hidden:,} more"
    facts = [
        ("Model", model["source"]),
        ("Size", size),
        ("Features", f"{model['n_features']:,}"),
        ("Classes", classes),
        ("Evaluated by", f"{report['classifier']}, {report['method']}"),
    ]
    for name, words in (
        ("max_disagreement", "Disagreement allowed"),
        ("max_accuracy_loss", "Accuracy loss allowed"),
        ("decision_threshold", "Decision threshold"),
        ("confidence", "Confidence required"),
        ("trade_off", "Trade-off"),
        ("budget", "Budget"),
    ):
        value = report.get("settings", {}).get(name)
        by_class = name == "max_disagreement" and class_bounds_of(report)
        if by_class:
            facts.append((words, class_bounds_in_words(by_class)))
        elif value is not None:
            is_share = name in ("max_disagreement", "max_accuracy_loss", "confidence")
            facts.append((words, percent(value) if is_share else number(value)))
    known = "with" if rows["labelled"] else "without"
    facts += [
        ("Rows of this report", f"{whole(rows['n_rows'])}, {known} true labels"),
        ("Made", f"{date(report['date'])} by spinney {report['spinney_version']}"),
    ]
    return facts
