"""Trees for servers: two words per node, eight trees at once.

Siblings lie side by side, and a leaf is its own left child: it compares a key that is
never above anything, so that a row that has arrived stays where it is. The next node is
the left child plus the outcome of the comparison, without a branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import BYTES, Tables, bits_for, fill, unsigned_type
from spinney.export.inputs import Slots
from spinney.export.layout import Layout, in_set_source, value_type
from spinney.forest import Forest
from spinney.forest.levels import levels
from spinney.runtime.building import arrange_nodes, leaves_below

# Trees that are walked at once.
GROUP = 8
# So many at the end, if no more are left over.
FEW = 4

WALK_TOGETHER = """
/* Takes a row down $n trees at once: they need not wait for one another. */
static void $name(
    const $key *keys, const $root *root, unsigned levels, size_t *leaf) {
    $begin
    for (; levels > 0; levels--) {
        const $node *at;
$moves$test    }
$end}
"""
# All trees at a leaf: none of them looks at anything.
ALL_AT_LEAVES = """        if (looked_at == $all) {
            break;
        }
"""

DOWN = """
/* The child that a row goes to, or the same leaf again. */
static size_t P_down(const $key *keys, size_t node) {
    const $node link = P_node[2 * node + 1];
$category    return (size_t)(link >> $shift) + (keys[link & $mask] > P_node[2 * node]);
}
"""
DOWN_CATEGORY = """    if ((link & $mask) < $n_categories) {
        const int left = P_in_set(keys[link & $mask], (size_t)P_node[2 * node]);
        return (size_t)(link >> $shift) + !left;
    }
"""
WALK_ONE = """
static void P_walk(const $key *keys, const $root *root, unsigned levels, size_t *leaf) {
    size_t node = root[0];
    (void)levels;
    while ((P_node[2 * node + 1] & $mask) != $leaf) {
        node = P_down(keys, node);
    }
    leaf[0] = node;
}
"""
FAST_STEP = """
#define P_IS_LEAF(tree_state) ((P_node[2 * (size_t)(tree_state) + 1] & $mask) == $leaf)
#define P_STEP(keys, tree_state) ($cursor)P_down(keys, tree_state)
#define P_BEGIN(tree) P_root[tree]
#define P_LEAF(tree_state) (tree_state)
#define P_NODE_VALUE(tree_state) P_node_value[tree_state]
"""
FAST_BUYING = """
static size_t P_walk_buying(P_purchases *p, size_t tree) {
    size_t node = P_root[tree];
    while ((P_node[2 * node + 1] & $mask) != $leaf) {
        const size_t slot = (size_t)(P_node[2 * node + 1] & $mask);
        if (!p->bought[slot]) {
            P_buy(p, slot);
        }
        node = P_down(p->keys, node);
    }
    return node;
}
"""
# Levels beyond the mean depth of a leaf that are worth a test for being done.
WORTH_A_TEST = 3.0


class FastLayout(Layout):
    """Two words per node, eight trees at once.

    Parameters
    ----------
    forest, slots
        As for the base class.
    """

    needs_end = True
    in_bytes = False

    def __init__(self, forest: Forest, slots: Slots) -> None:
        super().__init__(forest, slots)
        self.group = 1 if slots.has_categories else GROUP
        n_leaves = leaves_below(forest.tree_offsets, forest.left, forest.right)
        weight = (
            n_leaves
            if forest.n_node_samples is None
            else np.array(forest.n_node_samples)
        )
        place, root = arrange_nodes(
            forest.tree_offsets, slots.left, slots.right, weight
        )
        sizes = np.diff(forest.tree_offsets)
        self.root = root[:-1]
        self.place = place + np.repeat(self.root, sizes)
        self.n_places = int(root[-1])
        self.column_bits = bits_for(slots.n_slots)
        link_bits = self.column_bits + bits_for(self.n_places)
        wide = slots.key_bits > 32 or link_bits > 32
        self.node_type = "uint64_t" if wide else "uint32_t"
        self.root_type = unsigned_type(self.n_places)
        if self.root_type == "uint8_t":
            self.root_type = "uint16_t"

    def add_tables(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        slots, forest = self.slots, self.forest
        inner = forest.feature >= 0
        words = np.zeros((self.n_places, 2), dtype=np.uint64)
        words[self.place, 0] = np.where(inner, slots.key, 0)
        words[self.place[~inner], 0] = value_index[~inner].astype(np.uint64)
        child = self.place.copy()
        child[inner] = self.place[slots.left[inner]]
        words[self.place, 1] = (child << self.column_bits | slots.slot).astype(
            np.uint64
        )
        self._value_type = value_type(value_index[~inner])
        self._set_source(tables)
        tables.add("P_node", words, self.node_type, "threshold or value; child, slot")
        self._add_roots(tables, "P_root", "P_levels", self.root, forest.depths)

    def holds_values(
        self, index: NDArray[np.int64], patterns: NDArray[np.int64], n_bytes: int
    ) -> bool:
        return True

    def _add_roots(
        self,
        tables: Tables,
        root_name: str,
        levels_name: str,
        root: NDArray[np.int64],
        depths: NDArray[np.int64],
    ) -> None:
        n_padded = -(-len(root) // self.group) * self.group
        padded = np.concatenate([root, np.full(n_padded - len(root), root[-1])])
        tables.add(root_name, padded, self.root_type, "root of each tree")
        if self.group > 1:
            deep = np.zeros(n_padded, dtype=np.int64)
            deep[: len(depths)] = depths
            deepest = deep.reshape(-1, self.group).max(axis=1)
            kind = unsigned_type(max(int(deepest.max()), 256))
            tables.add(levels_name, deepest, kind, "levels of eight trees")

    def add_node_values(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        values = np.zeros(self.n_places, dtype=np.int64)
        values[self.place] = value_index
        kind = unsigned_type(max(int(value_index.max()), 256))
        tables.add("P_node_value", values, kind, "value of each node")

    def add_own_order(self, tables: Tables, position: NDArray[np.int64]) -> None:
        depths = self.forest.depths[position]
        self._add_roots(
            tables, "P_own_root", "P_own_levels", self.root[position], depths
        )

    def _parts(self) -> dict[str, str | int]:
        ending = "ull" if self.node_type == "uint64_t" else "u"
        return {
            "key": self.slots.key_type,
            "root": self.root_type,
            "node": self.node_type,
            "shift": self.column_bits,
            "mask": f"{(1 << self.column_bits) - 1}{ending}",
            "leaf": f"{self.slots.n_slots}{ending}",
            "n_categories": f"{self.slots.n_category_slots}{ending}",
            "cursor": self.root_type,
        }

    def common_source(self, single: bool) -> str:
        parts = self._parts()
        if self.group > 1:
            return fill(DOWN, category="", **parts) if single else ""
        category = fill(DOWN_CATEGORY, **parts)
        return in_set_source(self.slots) + fill(DOWN, category=category, **parts)

    def walk_source(self, drops: bool = False) -> str:
        parts = self._parts()
        if self.group == 1:
            return fill(WALK_ONE, **parts)
        source = ""
        if drops or self.forest.n_trees > FEW or not self._ends_with_few:
            source += self._walk_together("P_walk", GROUP)
        if self._ends_with_few:
            source += self._walk_together("P_walk_few", FEW)
        return source

    @property
    def _ends_with_few(self) -> bool:
        """Whether so few trees are left over that walking eight would be a waste."""
        return 1 <= self.forest.n_trees % GROUP <= FEW

    def _walk_together(self, name: str, n: int) -> str:
        """Return the function that walks so many trees."""
        parts = self._parts()
        shift, mask = parts["shift"], parts["mask"]
        which = range(n)
        node_type = self.node_type
        test = note = count = ""
        # Deep, uneven trees: most rows arrive long before the deepest leaf.
        if self._mean_group_depth() + WORTH_A_TEST < float(self.forest.depths.max()):
            ending = "ull" if node_type == "uint64_t" else "u"
            note = f"        {node_type} looked_at = 0;\n"
            count = f"        looked_at += at[1] & {mask};\n"
            test = fill(ALL_AT_LEAVES, all=f"{n * self.slots.n_slots}{ending}")
        return fill(
            WALK_TOGETHER,
            n=n,
            name=name,
            node=node_type,
            begin="\n    ".join(f"size_t node{i} = root[{i}];" for i in which),
            moves=note
            + "".join(
                # One after another: eight links at a time would not fit into registers.
                # Compilers add such a comparison with the carry flag.
                f"        at = P_node + 2 * node{i};\n{count}"
                f"        node{i} = (size_t)(at[1] >> {shift});\n"
                f"        node{i} += at[0] < keys[at[1] & {mask}];\n"
                for i in which
            ),
            test=test,
            end="".join(f"    leaf[{i}] = node{i};\n" for i in which),
            key=parts["key"],
            root=parts["root"],
        )

    def _mean_group_depth(self) -> float:
        """Return the mean depth of leaves, weighted by training rows if known."""
        forest = self.forest
        depth = np.zeros(forest.n_nodes)
        roots = forest.tree_offsets[:-1]
        for number, level in enumerate(levels(forest.left, forest.right, roots)):
            depth[level] = number
        leaves = forest.feature < 0
        weight = forest.n_node_samples
        if weight is None or not weight[leaves].any():
            return float(depth[leaves].mean())
        return float(np.average(depth[leaves], weights=weight[leaves]))

    @property
    def declarations(self) -> str:
        return f"    size_t leaf[{self.group}] = {{0}};\n"

    def leaf_of(self, tree: str, own: bool) -> str:
        prefix = "P_own_" if own else "P_"
        if self.group == 1:
            return (
                f"        P_walk(keys, &{prefix}root[{tree}], 0, leaf);\n"
                "        at = leaf[0];\n"
            )
        arguments = (
            f"(keys, &{prefix}root[{tree}], {prefix}levels[{tree} / {GROUP}], leaf);\n"
        )
        n_trees = self.forest.n_trees
        walk = f"            P_walk{arguments}"
        if self._ends_with_few:
            few = f"            P_walk_few{arguments}"
            last = n_trees // GROUP * GROUP
            walk = few
            if n_trees > FEW:
                walk = (
                    f"            if ({tree} < {last}) {{\n"
                    f"                P_walk{arguments}"
                    "            } else {\n"
                    f"                P_walk_few{arguments}"
                    "            }\n"
                )
        return (
            f"        if ({tree} % {GROUP} == 0) {{\n"
            + walk
            + "        }\n"
            + f"        at = leaf[{tree} % {GROUP}];\n"
        )

    def value_of(self, at: str) -> str:
        return f"({self._value_type})P_node[2 * {at}]"

    def step_source(self) -> str:
        return fill(FAST_STEP, **self._parts())

    @property
    def cursor(self) -> str:
        """Definition of the type of a cursor, for the header."""
        return f"typedef {self.root_type} P_cursor;"

    @property
    def cursor_bytes(self) -> int:
        """Bytes of a cursor."""
        return BYTES[self.root_type]

    def buying_source(self) -> str:
        return fill(FAST_BUYING, **self._parts())
