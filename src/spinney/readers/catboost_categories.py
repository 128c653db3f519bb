"""CatBoost's category columns: one-hot tests and target statistics ("CTRs").

What CatBoost does, as far as exactness depends on it:

- A category is a text (see `spinney.forest.category_texts`), and a text is the low half
  of its CityHash64. One-hot splits compare that number.
- The key of a combination is made from the hashes of its categories, then from tests of
  numbers, then from tests of categories; see `spinney.forest.encoder`.
- For each kind of statistic and combination the document has a table of counts by key.
  A statistic is ``((good + prior) / (total + prior_denominator) + shift) * scale`` in
  float32, with these counts, where c are those of the classes of the target:

  ========================== ======================== =======================
  kind                       good                     total
  ========================== ======================== =======================
  Borders                    c[border + 1] + ...      sum of c
  Buckets                    c[border]                sum of c
  BinarizedTargetMeanValue,  sum of the target        number of rows
  FloatTargetMeanValue
  Counter, FeatureFreq       number of rows           one for the whole table
  ========================== ======================== =======================

  For a key that is not in the table both are zero, but for the total of the last.
- A split on a statistic names its place in the list of all borders: those of numbers,
  then one-hot values, then those of statistics.
- Statistics of one kind and combination with several binarisations of the target have
  a table each, of which the document holds only one: such models are refused, and so
  are statistics of several targets (MultiRMSE).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest.encoder import ABOVE, EQUAL, MAX_ADDED, MULTIPLIER, VALUE, Encoder
from spinney.readers.catboost_document import Columns, numbers, part, refuse

COUNTS = ("Borders", "Buckets")
MEANS = ("BinarizedTargetMeanValue", "FloatTargetMeanValue")
TOTALS = ("Counter", "FeatureFreq")

# A slot of the library's own hash table that holds nothing.
EMPTY_KEY = 2**64 - 1
MASK = 2**64 - 1

# A part of a projection: its kind, the column, the border or the hash it compares with.
Part = tuple[int, int, float, int]
Parts = tuple[Part, ...]
# A column that is added: for each known key a number, and one for all other keys.
Added = tuple[NDArray[np.uint64], NDArray[np.float32], np.float32]


class CategorySplits(NamedTuple):
    """Which added column, and which border, a split on categories compares."""

    one_hot: dict[tuple[int, int], int]  # by categorical feature index and hash
    statistics: dict[int, tuple[int, float, int]]  # by split index; target border last


def read_categories(
    document: dict[str, Any], columns: Columns
) -> tuple[Encoder | None, CategorySplits]:
    """Return what encodes rows, and where trees find what it adds to them.

    Parameters
    ----------
    document : dict
        The whole export.
    columns : Columns
        Where the features are.

    Returns
    -------
    encoder : Encoder or None
        None if there are no categorical features.
    splits : CategorySplits
        For the trees.
    """
    features = part(document, "features_info", dict, "the document")
    if not columns.category:
        return None, CategorySplits({}, {})
    added: dict[Parts, list[Added]] = {}
    place: list[tuple[Parts, int]] = []  # of each added column: projection and number

    def add(parts: Parts, column: Added) -> int:
        same = added.setdefault(parts, [])
        same.append(column)
        place.append((parts, len(same) - 1))
        if len(place) > MAX_ADDED:
            refuse(f"more than {MAX_ADDED:,} one-hot values and statistics")
        return len(place) - 1

    one_hot = {}
    n_splits = _n_borders(features)
    for index, value in _one_hot_values(features, columns):
        key = np.array([_key_of_hash(value)], dtype=np.uint64)
        column = key, np.ones(1, dtype=np.float32), np.float32(0)
        parts = ((VALUE, columns.category[index], 0.0, 0),)
        one_hot[index, value] = add(parts, column)
        n_splits += 1
    statistics = {}
    ctrs = _list(features, "ctrs", "features_info")
    if ctrs:
        _refuse_ambiguous(document)
    for number, ctr in enumerate(ctrs):
        where = f"statistic {number}"
        border_index = part(ctr, "target_border_idx", int, where)
        column = _statistic(document, ctr, border_index, where)
        which = add(_parts(ctr, columns, where), column)
        borders = numbers(part(ctr, "borders", list, where), f"borders of {where}")
        for border in borders.astype(np.float32).tolist():
            statistics[n_splits] = which, border, border_index
            n_splits += 1
    encoder, first = _encoder(added, columns)
    # Columns of a projection stand together.
    column_of = [first[parts] + number for parts, number in place]
    return encoder, CategorySplits(
        {key: column_of[which] for key, which in one_hot.items()},
        {
            index: (column_of[which], border, target)
            for index, (which, border, target) in statistics.items()
        },
    )


def _list(holder: dict[str, Any], key: str, where: str) -> list[Any]:
    """Return a list that may be missing or null if it is empty."""
    if holder.get(key) is None:
        return []
    found: list[Any] = part(holder, key, list, where)
    return found


def _n_borders(features: dict[str, Any]) -> int:
    """Return the number of borders of numeric features."""
    return sum(
        len(_list(feature, "borders", f"float_features {number}"))
        for number, feature in enumerate(_list(features, "float_features", "it"))
    )


def _one_hot_values(
    features: dict[str, Any], columns: Columns
) -> Iterator[tuple[int, int]]:
    """Yield feature index and hash of all values that one-hot splits may compare."""
    entries = part(features, "categorical_features", list, "features_info")
    for number, feature in enumerate(entries):
        where = f"categorical_features {number}"
        index = part(feature, "feature_index", int, where)
        values = _list(feature, "values", where)
        for value in values:
            if type(value) is not int or not -(2**31) <= value < 2**31:
                refuse(f"a one-hot value of {where} is {value!r}")
            yield index, value
        if len(set(values)) < len(values):
            refuse(f"{where} lists a one-hot value twice")


def _key_of_hash(value: int) -> int:
    """Return the key of a projection that is a single category."""
    return MULTIPLIER * ((MULTIPLIER * (value & MASK)) & MASK) & MASK


def _parts(ctr: Any, columns: Columns, where: str) -> Parts:
    """Return what makes the key of a statistic."""
    made: list[Part] = []
    for number, element in enumerate(part(ctr, "elements", list, where)):
        spot = f"element {number} of {where}"
        kind = part(element, "combination_element", str, spot)
        if kind == "float_feature":
            index = part(element, "float_feature_index", int, spot)
            if index not in columns.column:
                refuse(f"{spot} uses float feature {index}, which is not listed")
            border = numbers([element.get("border")], f"'border' of {spot}")
            with np.errstate(over="ignore"):
                made.append(
                    (ABOVE, columns.column[index], float(np.float32(border[0])), 0)
                )
            continue
        index = part(element, "cat_feature_index", int, spot)
        if index not in columns.category:
            refuse(f"{spot} uses categorical feature {index}, which is not listed")
        column = columns.category[index]
        if kind == "cat_feature_value":
            made.append((VALUE, column, 0.0, 0))
        elif kind == "cat_feature_exact_value":
            value = part(element, "value", int, spot)
            if not -(2**31) <= value < 2**31:
                refuse(f"'value' of {spot} is {value}")
            made.append((EQUAL, column, 0.0, value))
        else:
            refuse(f"'combination_element' of {spot} is {kind!r}")
    if not made:
        refuse(f"{where} has no elements")
    return tuple(made)


# ----------------------------------------------------------------------- statistics


def _statistic(
    document: dict[str, Any], ctr: Any, border_index: int, where: str
) -> Added:
    """Return the numbers that a statistic has for the keys of its table."""
    kind = part(ctr, "ctr_type", str, where)
    if document.get("ctr_data") is None:
        msg = (
            "This CatBoost model uses statistics of categorical features, but has no "
            "tables for them, so it cannot be evaluated.\nHint: train it with "
            "final_ctr_computation_mode='Default'."
        )
        raise UnsupportedModelError(msg)
    tables = part(document, "ctr_data", dict, "the document")
    name = part(ctr, "identifier", str, where)
    table = part(tables, name, dict, "'ctr_data'")
    keys, counts = _table(table, where)
    n_counts = counts.shape[1]
    total_of_table = 0.0
    if kind in COUNTS:
        most = n_counts - (1 if kind == "Buckets" else 2)
        # With two classes the library does not look at the border.
        if n_counts < 2 or (n_counts > 2 and not 0 <= border_index <= most):
            refuse(f"'target_border_idx' of {where} is {border_index}")
        total = counts.sum(axis=1)
        if kind == "Buckets":
            if not 0 <= border_index <= most:
                refuse(f"'target_border_idx' of {where} is {border_index}")
            good = counts[:, border_index]
        else:
            good = counts[:, 1 if n_counts == 2 else border_index + 1 :].sum(axis=1)
    elif kind in MEANS:
        if n_counts != 2:
            refuse(f"the table of {where} has {n_counts} numbers per key, not 2")
        good, total = counts.T
    elif kind in TOTALS:
        if n_counts != 1:
            refuse(f"the table of {where} has {n_counts} numbers per key, not 1")
        good = counts[:, 0]
        total_of_table = part(table, "counter_denominator", int, f"table of {where}")
        total = np.full(len(good), float(total_of_table))
    else:
        msg = (
            f"CatBoost model uses the statistic {kind!r}, which is unknown.\nHint: "
            "train with Borders, Buckets, BinarizedTargetMeanValue or Counter in "
            "simple_ctr and combinations_ctr."
        )
        raise UnsupportedModelError(msg)
    names = ("prior_numerator", "prior_denomerator", "shift", "scale")
    settings = numbers([ctr.get(name) for name in names], f"the priors of {where}")
    # The last entry is that of unknown keys.
    values = _values(np.append(good, 0.0), np.append(total, total_of_table), settings)
    return keys, values[:-1], values[-1]


def _values(
    good: NDArray[np.float64], total: NDArray[np.float64], settings: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return statistics from counts, in float32 as the library reckons."""
    single = np.float32
    prior, denominator, shift, scale = settings.astype(single)
    with np.errstate(all="ignore"):
        ratio = (good.astype(single) + prior) / (total.astype(single) + denominator)
        made: NDArray[np.float32] = (ratio + shift) * scale
    return made


def _table(
    table: dict[str, Any], where: str
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the keys of a table and the numbers that it has for each."""
    spot = f"table of {where}"
    stride = part(table, "hash_stride", int, spot)
    entries = part(table, "hash_map", list, spot)
    if stride < 2 or len(entries) % stride:
        refuse(f"'hash_map' of {spot} has {len(entries)} entries, {stride} per key")
    given = entries[::stride]
    if not all(type(key) is str and key.isdecimal() for key in given):
        refuse(f"a key of {spot} is not a number in quotes")
    found = [int(key) for key in given]
    if found and max(found) > MASK:
        refuse(f"a key of {spot} has more than 64 bits")
    keys = np.array(found, dtype=np.uint64)
    counts = np.column_stack(
        [numbers(entries[k::stride], f"'hash_map' of {spot}") for k in range(1, stride)]
    )
    known = keys != np.uint64(EMPTY_KEY)
    keys, counts = keys[known], counts[known]
    if len(np.unique(keys)) < len(keys):
        refuse(f"{spot} has a key twice")
    return keys, counts


def _refuse_ambiguous(document: dict[str, Any]) -> None:
    """Refuse models whose tables of statistics overwrite one another in JSON."""
    info = part(document, "model_info", dict, "the document")
    # A sum of models has the parameters of each.
    given = [value for key, value in info.items() if key.split(":")[-1] == "params"]
    if not given:
        refuse("model_info has no training parameters")
    found: dict[tuple[str, str], Any] = {}
    features = part(document, "features_info", dict, "the document")
    ctrs = _list(features, "ctrs", "features_info")
    kinds = {part(ctr, "ctr_type", str, "a statistic") for ctr in ctrs}
    for params in given:
        described = part(params, "loss_function", dict, "the training parameters")
        loss = part(described, "type", str, "the loss")
        if loss.startswith("MultiRMSE") and not kinds <= set(TOTALS):
            msg = (
                f"CatBoost model with loss {loss} has statistics of several targets, "
                "and its JSON export holds the tables of only one of them.\nHint: "
                "train one model per target, or with simple_ctr=['Counter'] and "
                "combinations_ctr=['Counter']."
            )
            raise UnsupportedModelError(msg)
        options = part(params, "cat_feature_params", dict, "the training parameters")
        groups = [
            ("one feature", options.get("simple_ctrs")),
            ("combinations", options.get("combinations_ctrs")),
        ]
        # Those of a feature stand instead of the others: a table of their own, unless
        # another model of a sum has the others.
        for feature, ctrs in (options.get("per_feature_ctrs") or {}).items():
            own = "one feature" if len(given) > 1 else f"feature {feature}"
            groups.append((own, ctrs))
        for group, ctrs in groups:
            for ctr in ctrs or []:
                kind = part(ctr, "ctr_type", str, "a statistic")
                target = ctr.get("target_binarization")
                first = found.setdefault((group, kind), target)
                if first != target:
                    msg = (
                        f"CatBoost model has statistics of kind {kind} with several "
                        f"binarisations of the target ({first} and {target}), and its "
                        "JSON export holds the tables of only one of them.\nHint: "
                        "train with one TargetBorderCount for each kind of statistic."
                    )
                    raise UnsupportedModelError(msg)


# -------------------------------------------------------------------------- encoder


def _encoder(
    added: dict[Parts, list[Added]], columns: Columns
) -> tuple[Encoder, dict[Parts, int]]:
    """Return the encoder, and the first added column of each projection."""
    first: dict[Parts, int] = {}
    keys, lines, widths = [], [], []
    to = columns.n_features
    for parts, several in added.items():
        first[parts] = to
        to += len(several)
        widths.append(len(several))
        known = np.unique(np.concatenate([each[0] for each in several]))
        table = np.empty((len(known) + 1, len(several)), dtype=np.float32)
        for k, (own, values, of_others) in enumerate(several):
            table[:, k] = of_others
            table[np.searchsorted(known, own), k] = values
        keys.append(known)
        lines.append(table.ravel())
    flat = [each for parts in added for each in parts]
    made = Encoder(
        category_columns=np.array(sorted(columns.category.values())),
        part_offsets=_offsets([len(parts) for parts in added]),
        part_kind=np.array([kind for kind, *_ in flat], dtype=np.uint8),
        part_column=np.array([column for _, column, *_ in flat], dtype=np.int32),
        part_border=np.array([border for *_, border, _ in flat], dtype=np.float32),
        part_missing_above=np.array(
            [
                kind == ABOVE and column in columns.nan_right
                for kind, column, *_ in flat
            ],
            dtype=np.bool_,
        ),
        part_hash=np.array([value for *_, value in flat], dtype=np.int32),
        key_offsets=_offsets([len(each) for each in keys]),
        keys=np.concatenate([np.empty(0, dtype=np.uint64), *keys]),
        widths=np.array(widths, dtype=np.int64),
        lines=np.concatenate([np.empty(0, dtype=np.float32), *lines]),
    )
    return made, first


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    return np.cumsum([0, *sizes], dtype=np.int64)
