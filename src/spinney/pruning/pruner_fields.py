"""Parts of a fitted pruner as settings and arrays of a file, and taken out again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import FormatError
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array, take_forest, take_setting
from spinney.pruning.costs import Purchases
from spinney.pruning.frontier import Frontier, FrontierPoint


def take_full_forest(pruned: Forest, settings: Settings, arrays: Arrays) -> Forest:
    """Take out the forest that `pruned` was pruned from."""
    full = take_forest("full", settings, arrays)
    for forest in (full, pruned):
        if not forest.votes_by_class:
            msg = "the trees of its forests must vote"
            raise FormatError(msg)
    if full.n_features != pruned.n_features or full.n_trees != pruned.n_trees:
        msg = "its pruned forest must have the trees and columns of the full one"
        raise FormatError(msg)
    labels: tuple[Any, Any] = (full.classes_, pruned.classes_)
    if not np.array_equal(*labels):
        msg = "its two forests must have the same classes"
        raise FormatError(msg)
    return full


# ------------------------------------------------------------------ frontier


def frontier_to_parts(frontier: Frontier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays of a frontier."""
    breakpoints = [_written(one) for one in frontier.breakpoints]
    return {"breakpoints": breakpoints}, frontier.to_dict()


def take_frontier(settings: Settings, arrays: Arrays) -> Frontier:
    """Take out a frontier."""
    columns = {
        name: np.array(
            take_array(arrays, name, np.int64 if name == "n_nodes" else np.float64, 1)
        )
        for name in FrontierPoint._fields
    }
    breakpoints = tuple(map(_read, take_setting(settings, "breakpoints", list)))
    sizes = {len(breakpoints), *map(len, columns.values())}
    if len(sizes) != 1 or not breakpoints:
        msg = "the columns of its frontier must be of equal length, at least 1"
        raise FormatError(msg)
    if list(breakpoints) != sorted(breakpoints) or breakpoints[0] != 0:
        msg = "its breakpoints must rise from 0"
        raise FormatError(msg)
    return Frontier(**columns, breakpoints=breakpoints)


def take_point(settings: Settings) -> FrontierPoint:
    """Take out the point that the forest was pruned to."""
    point = take_setting(settings, "point", list)
    n_numbers = len(FrontierPoint._fields)
    if len(point) != n_numbers or not all(_is_number(one) for one in point):
        msg = f"point must be {n_numbers} numbers"
        raise FormatError(msg)
    return FrontierPoint._make([*map(float, point[:-1]), int(point[-1])])


def take_kept_until(arrays: Arrays, full: Forest, n_points: int) -> NDArray[np.int32]:
    """Take out up to which point of the frontier each node is kept as a split."""
    until: NDArray[np.int32] = np.array(take_array(arrays, "kept_until", np.int32, 1))
    if len(until) != full.n_nodes or until.min() < -1 or until.max() >= n_points:
        msg = f"kept_until must be from -1 to {n_points - 1} for each node"
        raise FormatError(msg)
    return until


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ------------------------------------------------------------------ costs


def purchases_to_parts(purchases: Purchases) -> tuple[Settings, Arrays]:
    """Return the settings and arrays of what features cost."""
    arrays: Arrays = {
        "item_of_column": purchases.item_of_column,
        "item_cost": purchases.cost,
        "item_price": purchases.price,
    }
    return {"unit": _written(purchases.unit)}, arrays


def take_purchases(settings: Settings, arrays: Arrays, n_columns: int) -> Purchases:
    """Take out what features cost."""
    items = np.array(take_array(arrays, "item_of_column", np.int64, 1))
    cost = np.array(take_array(arrays, "item_cost", np.float64, 1))
    price = np.array(take_array(arrays, "item_price", np.int64, 1))
    unit = _read(take_setting(settings, "unit", str))
    if len(items) != n_columns or items.min() < 0 or items.max() >= len(cost):
        msg = "item_of_column must name an item for each column"
        raise FormatError(msg)
    whole = np.isfinite(cost) & (cost >= 0.0)
    if len(price) != len(cost) or price.min() < 0 or not whole.all():
        msg = "items must have a cost and a price, neither below 0"
        raise FormatError(msg)
    return Purchases(items, cost, price, unit)


def _written(number: Fraction) -> str:
    """Return a fraction as text: its integers may be longer than JSON's numbers."""
    return f"{number.numerator}/{number.denominator}"


def _read(text: Any) -> Fraction:
    """Return a fraction from its text."""
    top, _, bottom = text.partition("/") if isinstance(text, str) else ("", "", "")
    digits = top.isascii() and bottom.isascii() and top.isdigit() and bottom.isdigit()
    if not digits or max(len(top), len(bottom)) > 1000 or int(bottom) == 0:
        msg = "a fraction must be two whole numbers, such as '3/500'"
        raise FormatError(msg)
    return Fraction(int(top), int(bottom))
