"""``spinney inspect``: what a file holds, and what it promises."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as TextTable

from spinney.base.wording import percent
from spinney.calibration.limits import largest_bound
from spinney.cli.accelerate import comparison_table, show_classes
from spinney.cli.console import (
    Debug,
    OutputAsJson,
    Quiet,
    output,
    plain_errors,
)
from spinney.cli.models import Trust, check_inputs, is_own_file, load_anything
from spinney.forest import Forest
from spinney.persistence.container import MAX_HEADER, parse_json
from spinney.readers import read_model
from spinney.readers.wrapped import parted

# Classes and names of columns to print.
N_NAMES = 6
# A threshold this close to one half is one half, in float32.
ROUNDING = 1e-6

KINDS = {
    "Forest": "forest",
    "SequentialVotingClassifier": "early exit from a vote",
    "CascadeClassifier": "early exit by a cascade",
    "AllTreesClassifier": "forest of which all trees are evaluated",
    "AllTreesRegressor": "regressor of which all trees are evaluated",
    "AnytimeForestClassifier": "anytime forest",
    "FeatureCostPruner": "forest pruned by feature cost",
    "BudgetedForestClassifier": "forest grown on a budget",
}


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="File of spinney, or any other model file; a pickle with --trust.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    trust: Trust = False,
    as_json: OutputAsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what is in a model file: trees, exit rule, promise, size.

    The whole file is checked; nothing in it is run, except in a pickle with --trust.
    """
    with plain_errors(debug, quiet):
        console = output(quiet=quiet or as_json)
        check_inputs(file, trust=trust)
        loaded = load_anything(file, trust=trust)
        facts = _facts(loaded, file)
        if as_json:
            typer.echo(json.dumps(facts))
        _show(facts, loaded, console)


def _facts(loaded: Any, path: Path) -> dict[str, Any]:
    """Return all that is to be told, in values that JSON can hold."""
    combined = getattr(loaded, "combined_", None)
    forest = getattr(loaded, "forest_", None)
    if combined is None and not isinstance(forest, Forest):
        forest = read_model(parted(loaded).ensemble)
    kind = type(loaded).__name__
    assert forest is not None or combined is not None
    of_trees = _combined_facts(loaded) if forest is None else _forest_facts(forest)
    return {
        "file": _file_facts(path),
        "kind": KINDS.get(kind, kind),
        "class": kind,
        "forest": of_trees,
        "exit_rule": _rule_facts(loaded),
        "promise": _promise_facts(loaded),
        "acceleration": (
            loaded.acceleration_.to_dict() if hasattr(loaded, "acceleration_") else None
        ),
    }


def _file_facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": str(path), "bytes": path.stat().st_size}
    if is_own_file(path):
        # Loading has checked it; it is read again for what loading does not return.
        with path.open("rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
            header = parse_json(file.read(length).decode("ascii"))["__metadata__"]
        facts["format"] = int(header["spinney_format"])
        facts["written_by_spinney"] = header["spinney_version"]
        facts["checksum"] = header["checksum"]
    return facts


def _forest_facts(forest: Forest) -> dict[str, Any]:
    classes = forest.classes_
    return {
        "source": forest.source,
        "trees": forest.n_trees,
        "nodes": forest.n_nodes,
        "leaves": int(np.count_nonzero(forest.left < 0)),
        "depth": int(forest.depths.max()),
        "mean_depth": float(forest.depths.mean()),
        "features": forest.n_features,
        "feature_names": (
            None if forest.feature_names is None else list(forest.feature_names)
        ),
        "classes": None if classes is None else classes.tolist(),
        "aggregation": forest.aggregation,
        "compares_in": forest.input_dtype,
        "decision_threshold": _decision_threshold(forest),
    }


def _decision_threshold(forest: Forest) -> float | None:
    """Return the probability from which the second of two classes is predicted."""
    two = forest.classes is not None and len(forest.classes) == 2
    if not two or forest.n_outputs != 1 or forest.link == "none":
        return None
    least = np.array([[forest.decision_threshold]], dtype=forest.sum_dtype)
    return float(forest.probabilities(least)[0, 1])


def _combined_facts(loaded: Any) -> dict[str, Any]:
    """Return the same about all forests of a combined model together."""
    from spinney.base.combined import forests_of

    forests = forests_of(loaded)
    each = [_forest_facts(forest) for forest in forests]
    names = getattr(loaded, "feature_names_in_", None)
    classes = getattr(loaded, "classes_", None)
    if isinstance(classes, list):  # several labels
        classes = [label.tolist() for label in classes]
    elif classes is not None:
        classes = classes.tolist()
    return {
        "source": type(loaded.combined_).__name__,
        **{
            name: sum(facts[name] for facts in each)
            for name in ("trees", "nodes", "leaves")
        },
        "depth": max(facts["depth"] for facts in each),
        "mean_depth": float(np.mean(np.concatenate([f.depths for f in forests]))),
        "features": int(loaded.n_features_in_),
        "feature_names": None if names is None else list(map(str, names)),
        "classes": classes,
        "aggregation": "a combined model",
        "compares_in": ", ".join(sorted({facts["compares_in"] for facts in each})),
        "decision_threshold": None,
    }


def _rule_facts(loaded: Any) -> dict[str, Any] | None:
    """Return how trees are evaluated; None if all of them are, as in the model."""
    kind = type(loaded).__name__
    if kind == "SequentialVotingClassifier":
        return {
            "voting": loaded.voting_,
            "objective": loaded.objective,
            "exit_points": len(loaded.exit_points_),
            "expected_trees": loaded.expected_votes_,
        }
    if kind == "CascadeClassifier":
        order = loaded.order if isinstance(loaded.order, str) else "given"
        return {
            "order": order,
            "rule": loaded.rule,
            "early_exit": loaded.early_exit,
            "exit_points": len(loaded.exit_points_),
            "expected_trees": loaded.expected_trees_,
        }
    if kind == "AnytimeForestClassifier":
        order = loaded.order if isinstance(loaded.order, str) else "given"
        return {"order": order, "steps": len(loaded.order_)}
    if kind == "FeatureCostPruner":
        return {
            "points_of_the_frontier": len(loaded.frontier_),
            "nodes_before_pruning": loaded.full_forest_.n_nodes,
            "mean_feature_cost": loaded.point_.cost,
            "error": loaded.point_.ensemble_error,
        }
    if kind == "BudgetedForestClassifier":
        return {"budget": loaded.budget}
    return None


def _promise_facts(loaded: Any) -> dict[str, Any] | None:
    """Return what is promised about predictions, if anything is."""
    if not hasattr(loaded, "max_disagreement"):
        return None
    certificate, promise = loaded.certificate_, loaded.promise_
    return {
        "max_disagreement": largest_bound(loaded.max_disagreement),
        "confidence": loaded.confidence,
        "expected_disagreement": getattr(loaded, "expected_disagreement_", None),
        "certificate": None if certificate is None else asdict(certificate),
        "promise": None if promise is None else promise.to_dict(),
    }


# ------------------------------------------------------------------ for people


def _show(facts: dict[str, Any], loaded: Any, console: Console) -> None:
    table = TextTable(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _lines(facts, loaded):
        table.add_row(name, value)
    console.print(table, markup=False)
    if facts["acceleration"] is not None:
        console.print()
        console.print(comparison_table(loaded.acceleration_))
        console.print(loaded.acceleration_.outcome, markup=False)
        show_classes(loaded.acceleration_, console)


def _lines(facts: dict[str, Any], loaded: Any) -> list[tuple[str, str]]:
    """Return what is printed, as names and values."""
    file, forest = facts["file"], facts["forest"]
    size = _bytes(file["bytes"])
    if "format" in file:
        size += f", format {file['format']}, by spinney {file['written_by_spinney']}"
    lines = [
        ("file", file["path"]),
        ("holds", f"{facts['kind']} ({facts['class']})"),
        ("source", forest["source"] or "unknown"),
        ("size", size),
        ("trees", f"{forest['trees']:,}, combined by {forest['aggregation']}"),
        ("nodes", f"{forest['nodes']:,}, {forest['leaves']:,} of them leaves"),
        ("depth", f"up to {forest['depth']:,}, {forest['mean_depth']:.1f} on average"),
        ("features", _counted(forest["features"], forest["feature_names"])),
        (
            "classes",
            "none, it is a regressor"
            if forest["classes"] is None
            else _counted(len(forest["classes"]), forest["classes"]),
        ),
    ]
    threshold = forest["decision_threshold"]
    if threshold is not None and abs(threshold - 0.5) > ROUNDING:
        second = forest["classes"][1]
        words = f"{threshold:.6g}, the probability from which {second} is predicted"
        lines.append(("threshold", words))
    for name, value in (facts["exit_rule"] or {}).items():
        words = f"{value:,.4g}" if isinstance(value, float) else f"{value}"
        if name == "error":
            words = percent(value)
        if name == "expected_trees":
            words = f"{value:,.1f} of {forest['trees']:,} per row"
        lines.append((name.replace("_", " "), words))
    promise = facts["promise"]
    if promise is not None:
        lines.append(("promise", _promise_words(loaded)))
        if loaded.certificate_ is not None:
            text = repr(loaded.certificate_)
            lines.append(("certificate", text.strip("<>").partition(": ")[2]))
    return lines


def _promise_words(loaded: Any) -> str:
    if loaded.promise_ is not None:
        return str(loaded.promise_)
    share = percent(largest_bound(loaded.max_disagreement))
    return f"fitted to {share} by an older version, which did not record a promise"


def _counted(number: int, names: list[Any] | None) -> str:
    """Return a number and the first of the names that belong to it."""
    if names is None:
        return f"{number:,}, without names"
    shown = ", ".join(map(str, names[:N_NAMES]))
    return f"{number:,}: {shown}" + (", ..." if len(names) > N_NAMES else "")


def _bytes(number: int) -> str:
    if number < 1000:
        return f"{number} bytes"
    power = min((len(str(number)) - 1) // 3, 3)
    return f"{number / 1000**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"
