"""What features cost: checked, by item, and as integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError

# Whole numbers stand for costs and weights. Those that are decimal numbers or simple
# fractions are exact; others are rounded to this share of the largest.
RESOLUTION = 2**16
# Fractions with a larger common denominator do not count as simple.
MAX_DENOMINATOR = 10**6


@dataclass(frozen=True)
class Purchases:
    """What can be bought, and for how much.

    An item is a column, or several columns that are bought together.

    Parameters
    ----------
    item_of_column : ndarray of shape (n_columns,), dtype=int64
        The item that a column belongs to.
    cost : ndarray of shape (n_items,), dtype=float64
        Cost of each item.
    price : ndarray of shape (n_items,), dtype=int64
        The same in integer multiples of `unit`.
    unit : Fraction
        Cost of a price of 1.
    """

    item_of_column: NDArray[np.int64]
    cost: NDArray[np.float64]
    price: NDArray[np.int64]
    unit: Fraction

    @property
    def column_cost(self) -> NDArray[np.float64]:
        """Cost of each column, where columns bought together each have the full one."""
        return self.cost[self.item_of_column]

    def cost_of(self, bought: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return what each row pays for its features.

        Parameters
        ----------
        bought : ndarray of shape (n_rows, n_columns), dtype=bool
            Which features each row buys. Those that are bought together are paid for
            once.
        """
        cost = np.zeros(len(bought))
        for item, each in enumerate(self.cost):
            columns = np.flatnonzero(self.item_of_column == item)
            cost += each * bought[:, columns].any(axis=1)
        return cost


def is_amount(value: Any, infinite: bool = False) -> bool:
    """Whether this is a number that is not negative, and finite if it must be.

    Parameters
    ----------
    value : object
        What was passed.
    infinite : bool, default=False
        Whether infinity is accepted.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return 0.0 <= float(value) < math.inf or (infinite and float(value) == math.inf)


def integer_multiples(
    values: NDArray[np.float64], resolution: int = RESOLUTION
) -> tuple[NDArray[np.int64], Fraction]:
    """Return numbers as multiples of a unit, exactly where that is possible.

    Parameters
    ----------
    values : ndarray, dtype=float64
        Finite numbers, none negative.
    resolution : int, default=65536
        Numbers that have no small common unit are rounded to this share of the
        largest; those above zero stay above zero.

    Returns
    -------
    multiples : ndarray, dtype=int64
        Whole numbers, at most `resolution`, or at most `MAX_DENOMINATOR` if exact.
    unit : Fraction
        ``multiples * unit`` are the values, or close to them.
    """
    distinct = np.unique(values)
    largest = float(distinct[-1]) if len(distinct) else 0.0
    if largest == 0.0:
        return np.zeros(values.shape, dtype=np.int64), Fraction(1)
    # A decimal number such as 0.1 means one tenth, not the double next to it.
    simple = [Fraction(v).limit_denominator(MAX_DENOMINATOR) for v in distinct]
    common = 1
    for value, fraction in zip(distinct, simple, strict=True):
        common = math.lcm(common, fraction.denominator)
        if float(fraction) != value or common > MAX_DENOMINATOR:
            break
    else:
        scaled = [int(fraction * common) for fraction in simple]
        divisor = math.gcd(*scaled)
        if scaled[-1] // divisor <= MAX_DENOMINATOR:
            table = np.array([number // divisor for number in scaled], dtype=np.int64)
            exact = table[np.searchsorted(distinct, values)]
            return exact, Fraction(divisor, common)
    unit = Fraction(largest) / resolution
    rounded = np.rint(values / largest * resolution).astype(np.int64)
    return np.maximum(rounded, (values > 0.0).astype(np.int64)), unit


def purchases_for(
    n_columns: int,
    names: Sequence[str] | None,
    feature_costs: Any,
    feature_groups: Any,
) -> Purchases:
    """Check costs and groups of columns, and return what can be bought.

    Parameters
    ----------
    n_columns : int
        Number of columns.
    names : sequence of str or None
        Names of the columns, if they have any.
    feature_costs : None, array-like of shape (n_columns,) or mapping
        Costs by column; a mapping has names (or numbers) of columns, or names of
        groups, as keys, and columns that it leaves out cost 1.
    feature_groups : None or mapping
        From the name of a group to the columns that are bought together.
    """
    names = () if names is None else names
    index_of = {name: index for index, name in enumerate(names)}
    if len(index_of) != len(names):
        index_of = {}  # a name that occurs twice identifies no column
    item_of_column = np.arange(n_columns, dtype=np.int64)
    group_of: dict[int, Any] = {}
    first_of: dict[Any, int] = {}
    for group, columns in _groups(feature_groups):
        for column in columns:
            index = _column(column, index_of, n_columns, f"group {group!r} of ")
            if index in group_of:
                msg = (
                    f"feature_groups must name each column once, but column "
                    f"{column!r} is in {group_of[index]!r} and in {group!r}. Put it "
                    "into one of them."
                )
                raise InvalidArgumentError(msg)
            group_of[index] = group
            first_of.setdefault(group, index)
            item_of_column[index] = first_of[group]
    if isinstance(feature_costs, Mapping):
        costs = np.ones(n_columns)
        for key, cost in feature_costs.items():
            index = (
                first_of[key]
                if key in first_of
                else _column(key, index_of, n_columns, "feature_costs, ")
            )
            if key not in first_of and index in group_of:
                msg = (
                    f"feature_costs names column {key!r}, which is bought together "
                    f"with others as {group_of[index]!r}. Give the cost of the group: "
                    f"{{{group_of[index]!r}: ...}}."
                )
                raise InvalidArgumentError(msg)
            costs[item_of_column == index] = _cost(cost, repr(key))
    elif feature_costs is None:
        costs = np.ones(n_columns)
    else:
        costs = _cost_vector(feature_costs, n_columns)
        for index, group in group_of.items():
            if costs[index] != costs[first_of[group]]:
                msg = (
                    f"feature_costs must be equal for columns that are bought "
                    f"together, got {costs[first_of[group]]:g} and {costs[index]:g} "
                    f"in group {group!r}. Give each of them the cost of the group."
                )
                raise InvalidArgumentError(msg)
    items, item_of_column = np.unique(item_of_column, return_inverse=True)
    cost = costs[items]
    price, unit = integer_multiples(cost)
    return Purchases(item_of_column.astype(np.int64), cost, price, unit)


def _groups(feature_groups: Any) -> Iterable[tuple[Any, list[Any]]]:
    """Yield the name and the columns of each group."""
    if feature_groups is None:
        return
    if not isinstance(feature_groups, Mapping):
        msg = (
            "feature_groups must be a mapping from names to lists of columns, got "
            f"{type(feature_groups).__name__}. Write {{'blood test': ['iron', "
            "'ferritin']}}."
        )
        raise InvalidArgumentError(msg)
    for group, columns in feature_groups.items():
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            msg = (
                f"feature_groups must give a list of columns for {group!r}, got "
                f"{columns!r}."
            )
            raise InvalidArgumentError(msg)
        yield group, list(columns)


def _column(key: Any, index_of: dict[str, int], n_columns: int, where: str) -> int:
    """Return the index of a column given by name or number."""
    if isinstance(key, str) and key in index_of:
        return index_of[key]
    if isinstance(key, Integral) and not isinstance(key, bool):
        if 0 <= int(key) < n_columns:
            return int(key)
        msg = (
            f"{where}column {int(key)}: columns are numbered from 0 to {n_columns - 1}."
        )
        raise InvalidArgumentError(msg)
    if index_of:
        known = ", ".join(map(repr, sorted(index_of)[:8]))
        more = ", ..." if len(index_of) > 8 else ""
        hint = f"The columns are {known}{more}."
    else:
        hint = (
            "The model has no column names. Use column numbers, or train it on a data "
            "frame."
        )
    msg = f"{where}column {key!r}: there is no such column. {hint}"
    raise InvalidArgumentError(msg)


def _cost_vector(feature_costs: Any, n_columns: int) -> NDArray[np.float64]:
    """Return costs given as an array, one for each column."""
    hint = f"Pass {n_columns} costs, one per column, or a mapping from names to costs."
    try:
        costs = np.array(feature_costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"feature_costs must be numbers, got {feature_costs!r}. {hint}"
        raise InvalidArgumentError(msg) from error
    if costs.shape != (n_columns,):
        msg = f"feature_costs must have shape ({n_columns},), got {costs.shape}. {hint}"
        raise InvalidArgumentError(msg)
    for column, cost in enumerate(costs.tolist()):
        _cost(cost, f"column {column}")
    return costs


def _cost(cost: Any, what: str) -> float:
    """Return one cost as a float, or say what is wrong with it."""
    if not is_amount(cost):
        msg = (
            f"feature_costs must not be negative, NaN or infinite, got {cost!r} for "
            f"{what}. Train without a column that must not be bought; 0 is for columns "
            "that are available anyway."
        )
        raise InvalidArgumentError(msg)
    return float(cost)
