"""Trees as tables, and the loops that walk them: what the two layouts share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import Tables, fill, packed_bytes, unsigned_type
from spinney.export.inputs import FIRST_CATEGORY, Slots
from spinney.forest import Forest


class Layout(ABC):
    """Trees in the order in which they are evaluated, for one kind of rows.

    Parameters
    ----------
    forest : Forest
        The trees, in this order.
    slots : Slots
        What its nodes compare.
    """

    # Trees that one call of the walk takes a row through.
    group: int
    # Whether the walk needs a key behind those of the slots.
    needs_end: bool
    # Whether integers are written as bytes, put together as they are read.
    in_bytes: bool
    # Type of the number of a root, where several trees are walked at once.
    root_type = "size_t"

    def __init__(self, forest: Forest, slots: Slots) -> None:
        self.forest = forest
        self.slots = slots

    @abstractmethod
    def add_tables(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        """Add the tables of the nodes; `value_index` is what each leaf says."""

    @abstractmethod
    def holds_values(
        self, index: NDArray[np.int64], patterns: NDArray[np.int64], n_bytes: int
    ) -> bool:
        """Whether leaves had better hold values, as bits, than the index of each.

        A value of a table would take `n_bytes`.
        """

    @abstractmethod
    def add_node_values(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        """Add the tables that tell the value of every node, for steps."""

    @abstractmethod
    def add_own_order(self, tables: Tables, position: NDArray[np.int64]) -> None:
        """Add the tables for evaluating the trees in the forest's own order."""

    @abstractmethod
    def common_source(self, single: bool) -> str:
        """Return what the functions below need; `single` if any takes single steps."""

    @abstractmethod
    def walk_source(self, drops: bool = False) -> str:
        """Return the function that takes a row down a tree, or down several.

        With `drops` the trees of a group are not those that follow one another.
        """

    @abstractmethod
    def leaf_of(self, tree: str, own: bool) -> str:
        """Return statements that set `at` to the leaf of a tree, in a loop over trees.

        With `own` the loop is in the forest's own order.
        """

    @abstractmethod
    def value_of(self, at: str) -> str:
        """Return the expression for the value index of a leaf."""

    @abstractmethod
    def step_source(self) -> str:
        """Return the functions for one level of one tree, and the type of a cursor."""

    @abstractmethod
    def buying_source(self) -> str:
        """Return the function that takes a row down a tree, fetching as it goes."""

    @property
    def declarations(self) -> str:
        """Declarations that the statements of `leaf_of` need."""
        return ""

    @property
    @abstractmethod
    def cursor(self) -> str:
        """Definition of the type of a cursor, for the header."""

    @property
    @abstractmethod
    def cursor_bytes(self) -> int:
        """Bytes of a cursor."""

    @property
    def keys_type(self) -> str:
        """What the walk takes: keys, or the row itself if it needs no loading."""
        return self.slots.key_type

    @property
    def is_direct(self) -> bool:
        """Whether rows are compared where they lie, without loading them."""
        return False

    def _set_source(self, tables: Tables) -> None:
        """Add the sets of categories, as bytes."""
        forest = self.forest
        if not self.slots.has_categories:
            return
        assert forest.category_words is not None
        assert forest.category_offsets is not None
        words = forest.category_words.astype(np.uint64)
        tables.add("P_set", packed_bytes(words, 4), "uint8_t", "sets of categories")
        first = forest.category_offsets * 4
        tables.add("P_set_first", first, unsigned_type(int(first[-1])))


IN_SET = """
/* Whether a category, by its key, goes left. */
static int P_in_set($key key, size_t set) {
    uint32_t code, first = P_set_first[set];
    if (key < $first_category) {
        return key == 0;
    }
    code = (uint32_t)(key - $first_category);
    if (code / 8 >= P_set_first[set + 1] - first) {
        return 0;
    }
    return (P_READ(&P_set[first + code / 8]) >> (code % 8)) & 1;
}
"""


def value_type(values: NDArray[np.int64]) -> str:
    """Return a type for what leaves hold: `size_t` has 16 bits on small processors."""
    return "size_t" if int(values.max(initial=0)) < 1 << 16 else "uint32_t"


def in_set_source(slots: Slots) -> str:
    """Return the function that looks up a category, if any node does."""
    if not slots.has_categories:
        return ""
    return fill(IN_SET, key=slots.key_type, first_category=FIRST_CATEGORY)
