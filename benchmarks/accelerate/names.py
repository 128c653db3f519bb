"""What the data sets are called on pages and in figures."""

from __future__ import annotations

from typing import Any

NAMES = {
    "covertype": "Covertype",
    "census_income_kdd": "Census income",
    "cdc_diabetes": "CDC diabetes",
    "skin_segmentation": "Skin",
    "sepsis_survival": "Sepsis",
    "dota2": "Dota2",
    "diabetes130": "Hospitalization",
    "shuttle": "Shuttle",
    "adult": "Adult",
    "nomao": "Nomao",
}


def brief(case: dict[str, Any]) -> str:
    """Return data set, kind of model and number of trees of a case."""
    kind_and_trees = ", ".join(case["title"].split(", ")[:2])
    return f"{NAMES[case['dataset']]}: {kind_and_trees}"


def boosted_first(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases of a run, boosted models before forests."""
    return sorted(result["cases"], key=lambda case: "forest" in case["title"])
