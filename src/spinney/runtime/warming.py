"""Small uses of the engines, so that all of their kernels are compiled or loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.forest.encoder import VALUE, Encoder
from spinney.runtime.batch_kernels import MIN_BLOCK_ROWS
from spinney.runtime.conditions import MAX_BITSLICED_LEAVES
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule

# Trees that are bitsliced, and some that are too large for that.
SMALL, LARGE = (1, 1), (MAX_BITSLICED_LEAVES, MAX_BITSLICED_LEAVES)


def example_forest(
    row_type: str = "float32",
    sum_type: str = "float64",
    sizes: Sequence[int] = SMALL,
    has_categories: bool = False,
) -> Forest:
    """Return a forest that uses kernels of some kind.

    Parameters
    ----------
    row_type, sum_type : {"float32", "float64"}
        Types of rows and sums.
    sizes : sequence of int
        Number of inner nodes of each tree.
    has_categories : bool, default=False
        Whether the first root looks up a category.
    """
    trees = []
    for tree, n_inner in enumerate(sizes):
        node = np.arange(2 * n_inner + 1)
        is_inner = node < n_inner
        first = sum(2 * size + 1 for size in sizes[:tree])
        left = np.where(is_inner, 2 * node + 1 + first, -1)
        right = np.where(is_inner, left + 1, -1)
        feature = np.where(is_inner, tree % 2, -1)
        value = (tree + 1.0) * np.where(node % 2, -1, 1)
        trees.append((feature, left, right, value))
    feature, left, right, value = (
        np.concatenate(part) for part in zip(*trees, strict=True)
    )
    n_nodes = len(feature)
    categories: dict[str, Any] = {}
    if has_categories:
        categories["category_set"] = np.where(np.arange(n_nodes) == 0, 0, -1)
        categories["category_offsets"] = np.array([0, 1])
        categories["category_words"] = np.array([1])
    return Forest(
        tree_offsets=np.concatenate([[0], np.cumsum(2 * np.array(sizes) + 1)]),
        feature=feature,
        threshold=np.zeros(n_nodes),
        left=left,
        right=right,
        value=value,
        n_features=2,
        aggregation="sum",
        classes=np.array([0, 1]),
        link="logistic",
        input_dtype=row_type,
        sum_dtype=sum_type,
        **categories,
    )


def _nothing(*_: object) -> NDArray[np.float64]:
    """Return no probabilities: they are not used."""
    return np.empty(0)


def _encoding_forest() -> Forest:
    """Return a forest of one stump on a statistic of category values."""
    encoder = Encoder(
        category_columns=np.array([0]),
        part_offsets=np.array([0, 1]),
        part_kind=np.array([VALUE]),
        part_column=np.array([0]),
        part_border=np.zeros(1, dtype=np.float32),
        part_missing_above=np.zeros(1, dtype=np.bool_),
        part_hash=np.zeros(1, dtype=np.int32),
        key_offsets=np.array([0, 1]),
        keys=np.ones(1, dtype=np.uint64),
        widths=np.array([1]),
        lines=np.zeros(2, dtype=np.float32),
    )
    return Forest(
        tree_offsets=np.array([0, 3]),
        feature=np.array([2, -1, -1]),
        threshold=np.zeros(3),
        left=np.array([1, -1, -1]),
        right=np.array([2, -1, -1]),
        value=np.array([0.0, -1.0, 1.0]),
        n_features=2,
        aggregation="sum",
        encoder=encoder,
    )


def engine_uses() -> dict[str, Callable[[], object]]:
    """Return uses of every kernel of the engines, by name.

    Returns
    -------
    uses : dict
        What to call, for every type of row and sum.
    """
    uses: dict[str, Callable[[], object]] = {}
    kinds = [("float32", "float64"), ("float32", "float32"), ("float64", "float64")]
    for row_type, sum_type in kinds:
        rows = np.zeros((2 * MIN_BLOCK_ROWS, 2), dtype=row_type)
        name = f"{row_type} rows, {sum_type} sums"
        make = partial(example_forest, row_type, sum_type)
        forest, coded = make(), make(has_categories=True)
        by_trees = {
            "": forest,
            " of large trees": make(LARGE),
            " of small and large trees": make((*SMALL, *LARGE)),
            " with categories": coded,
            " of large trees with categories": make(LARGE, has_categories=True),
        }
        for trees, one in by_trees.items():
            uses[f"batches{trees}, {name}"] = partial(one.predict, rows)
        uses[f"small batches, {name}"] = partial(forest.predict, rows[:2])
        uses[f"batches of one row, {name}"] = partial(forest.predict, rows[:1])
        uses[f"single rows, {name}"] = partial(_answer_row, forest, rows[0])
        uses[f"scores of single rows, {name}"] = partial(_score_row, forest, rows[0])
        if sum_type == "float32":
            several = _of_three_classes(forest)
            uses["softmax of a row"] = partial(several.predict_proba, rows[:1])
        uses[f"categories in small batches, {name}"] = partial(coded.predict, rows[:2])
        if sum_type == "float64":
            for trees, one in by_trees.items():
                uses[f"leaves{trees}, {row_type} rows"] = partial(one.leaves, rows)
            uses[f"categories, {row_type} rows"] = partial(_answer_row, coded, rows[0])
            uses[f"categories of a few, {row_type} rows"] = partial(
                _widen, coded, rows[:2]
            )
            rule = ExitRule.between([0, 1], [1], [-np.inf], [np.inf])
            early = EarlyExitEngine(forest, rule)
            read_only = forest.engine.rows(rows)
            name = f"early exits, {row_type} rows"
            of_walked = EarlyExitEngine(make(LARGE), rule)
            uses[f"{name}, batches"] = partial(early.evaluate, read_only)
            uses[f"{name}, batches of large trees"] = partial(
                of_walked.evaluate, read_only
            )
            uses[f"{name}, small batches"] = partial(early.evaluate, read_only[:2])
            uses[f"{name}, single rows"] = partial(_answer_row, early, rows[0])
            uses[f"{name}, probabilities of single rows"] = partial(
                _probabilities_of_row, early, rows[0]
            )
            several = _of_three_classes(forest)
            rule = ExitRule.dropping([0, 1], [1], np.full((1, 3, 3), np.inf), [0, 1])
            dropping = EarlyExitEngine(several, rule)
            name = f"dropped classes, {row_type} rows"
            uses[f"{name}, batches"] = partial(dropping.evaluate, read_only)
            uses[f"{name}, small batches"] = partial(dropping.evaluate, read_only[:2])
            uses[f"{name}, single rows"] = partial(_answer_row, dropping, rows[0])
    values = np.array([["", 0.0]], dtype=object)
    uses["category values"] = partial(_encoding_forest().engine.rows, values)
    return uses


def _widen(forest: Forest, rows: NDArray[np.floating]) -> None:
    """Look up the categories of rows that are walked, a few at a time."""
    wide = forest.engine.widened
    assert wide is not None
    wide.rows(rows)


def _of_three_classes(forest: Forest) -> Forest:
    """Return the two trees of a small forest for the first two of three classes."""
    return forest.replace(
        classes=np.arange(3),
        n_outputs=3,
        tree_output=np.array([0, 1]),
        base_score=np.zeros(3),
        link="softmax",
    )


def _answer_row(thing: Forest | EarlyExitEngine, row: NDArray[np.floating]) -> object:
    """Predict one row, with a new predictor, which lays out the trees."""
    return thing.predictor()(row)


def _score_row(forest: Forest, row: NDArray[np.floating]) -> object:
    """Add up the trees for one row."""
    return forest.predictor(kind="proba")(row)


def _probabilities_of_row(engine: EarlyExitEngine, row: NDArray[np.floating]) -> object:
    """Find the probabilities of one row, likewise."""
    return engine.probability_predictor(_nothing, _nothing, _nothing)(row)
