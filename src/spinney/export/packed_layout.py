"""Trees for small devices: inner nodes only, each in the bits it needs.

The inner nodes of a tree lie in preorder, and a node says how many inner nodes its left
subtree has. That is all there is to say about the shape: to the left the next node is
the neighbour, to the right it lies behind that many; a subtree of no inner nodes is a
leaf; and the leaves, in the same order, are counted on the way. No node has a pointer
and no leaf is marked.

All tables are bytes, put together as they are read: the same on every processor,
whatever its byte order and alignment, and easy to keep in flash where that is another
address space.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import (
    BYTES,
    Tables,
    bits_for,
    fill,
    packed_bytes,
    unsigned_type,
)
from spinney.export.inputs import Slots
from spinney.export.layout import Layout, in_set_source, value_type
from spinney.export.preorder import preorder
from spinney.forest import Forest

GETTERS = {
    1: "(P_READ(p))",
    2: "((uint32_t)P_READ(p) | (uint32_t)P_READ((p) + 1) << 8)",
    3: "((uint32_t)P_READ(p) | (uint32_t)P_READ((p) + 1) << 8"
    " | (uint32_t)P_READ((p) + 2) << 16)",
    4: "((uint32_t)P_READ(p) | (uint32_t)P_READ((p) + 1) << 8"
    " | (uint32_t)P_READ((p) + 2) << 16 | (uint32_t)P_READ((p) + 3) << 24)",
    8: "((uint64_t)P_GET4(p) | (uint64_t)P_GET4((p) + 4) << 32)",
}


def getters_source() -> str:
    """Return the macros that put numbers together from bytes, the lowest first."""
    return "".join(f"#define P_GET{n}(p) {text}\n" for n, text in GETTERS.items())


def byte_width(largest: int) -> int:
    """Return how many bytes a table gives to a number: 1, 2, 3, 4 or 8."""
    return next(n for n in GETTERS if int(largest) < 1 << (8 * n))


def _word_bytes(n_bits: int) -> int:
    """Return the bytes of a word of so many bits; 0 if it is too long."""
    return 0 if n_bits > 64 else byte_width((1 << max(1, n_bits)) - 1)


PACKED_WALK = """
/* Takes a row down a tree and returns the number of its leaf: that of the inner nodes
   before it, less those that it is to the left of. */
static size_t P_walk(const $row *keys, size_t tree) {
    const uint8_t *start = P_tree_start + $start_bytes * tree;
    size_t at = P_GET$start_bytes(start);
    size_t end = P_GET$start_bytes(start + $start_bytes), before = tree;
    while (at != end) {
        const uint8_t *node = P_node + $width * at;
$look        at++;
        if ($right) {
            at += in_left;
        } else {
            end = at + in_left;
            before--;
        }
    }
    return at + before;
}
"""
# The same with pointers, where a node has 1, 2, 4 or 8 bytes: to multiply and divide by
# that is free.
PACKED_WALK_BY_POINTER = """
/* Takes a row down a tree and returns the number of its leaf: that of the inner nodes
   before it, less those that it is to the left of. */
static size_t P_walk(const $row *keys, size_t tree) {
    const uint8_t *start = P_tree_start + $start_bytes * tree;
    const uint8_t *node, *end;
    size_t before = tree;
    node = P_node + $width * (size_t)P_GET$start_bytes(start);
    end = P_node + $width * (size_t)P_GET$start_bytes(start + $start_bytes);
    while (node != end) {
$look        node += $width;
        if ($right) {
            node += $width * in_left;
        } else {
            end = node + $width * in_left;
            before--;
        }
    }
    return (size_t)(node - P_node) / $width + before;
}
"""
PACKED_LOOK = """        const $word word = P_GET$look_bytes(node);
        const size_t in_left = (size_t)(word & $left_mask);
        const size_t slot = (size_t)$slot;
        const $row key = keys[slot];
$where        const $row limit = ($row)$limit;
"""
PACKED_STEP = """
#define P_IS_LEAF(tree_state) ((tree_state).inner == 0)
#define P_LEAF(tree_state) ((tree_state).leaf)

static P_cursor P_BEGIN(size_t tree) {
    P_cursor c;
    const size_t at = P_START(tree);
    c.at = ($at)at;
    c.leaf = ($at)(at + tree);
    c.inner = ($at)(P_START(tree + 1) - at);
    return c;
}

static P_cursor P_STEP(const $row *keys, P_cursor c) {
    const size_t at = c.at;
    if (c.inner > 0) {
        const uint8_t *node = P_node + $width * at;
$look        if ($right) {
            c.at = ($at)(at + in_left + 1);
            c.leaf = ($at)(c.leaf + in_left + 1);
            c.inner = ($at)(c.inner - in_left - 1);
        } else {
            c.at = ($at)(at + 1);
            c.inner = ($at)in_left;
        }
    }
    return c;
}

static size_t P_NODE_VALUE(P_cursor c) {
    return c.inner > 0 ? (size_t)P_INNER_CODE(c.at) : P_CODE(c.leaf);
}
"""
PACKED_BUYING = """
static size_t P_walk_buying(P_purchases *p, size_t tree) {
    const $row *keys = p->keys;
    size_t at = P_START(tree), leaf = at + tree, inner = P_START(tree + 1) - at;
    while (inner > 0) {
        const uint8_t *node = P_node + $width * at;
        const size_t wanted = (size_t)(P_GET$word_bytes(node) >> $slot_shift);
        if (!p->bought[wanted]) {
            P_buy(p, wanted);
        }
        {
$look        if ($right) {
            at += in_left + 1;
            leaf += in_left + 1;
            inner -= in_left + 1;
        } else {
            at += 1;
            inner = in_left;
        }
        }
    }
    return leaf;
}
"""
CODE = """
/* What a leaf says, as an index. */
static $type P_CODE(size_t leaf) {
    return $code;
}
"""


class PackedLayout(Layout):
    """Inner nodes only, in the bits they need.

    Parameters
    ----------
    forest, slots
        As for the base class.
    """

    group = 1
    needs_end = False
    in_bytes = True

    def __init__(self, forest: Forest, slots: Slots) -> None:
        super().__init__(forest, slots)
        self.preorder = preorder(forest, slots)
        inner = np.flatnonzero(forest.feature >= 0)
        self._inner = inner[np.argsort(self.preorder.at[inner])]
        seen = slots.column[slots.slot[self._inner]]
        self._slot = seen if self.is_direct else slots.slot[self._inner]
        self._key = slots.key[self._inner]
        if self.is_direct:  # integers are compared as they are
            self._key = self._key ^ np.uint64(1 << (slots.key_bits - 1))
        self._choose()

    def _choose(self) -> None:
        """Choose between thresholds in the nodes and thresholds shared by slots."""
        n_left = self.preorder.n_left[self._inner]
        self._left_bits = bits_for(int(n_left.max(initial=0)))
        slot_bits = bits_for(int(self._slot.max(initial=0)))
        pairs = np.stack([self._slot.astype(np.uint64), self._key], axis=1)
        shared, which = np.unique(pairs, axis=0, return_inverse=True)
        n_slots = int(self._slot.max(initial=0)) + 1
        first = np.searchsorted(shared[:, 0], np.arange(n_slots + 1))
        within = which.ravel() - first[self._slot]
        index_bits = bits_for(int(within.max(initial=0)))
        key_bytes = BYTES[self.slots.key_type]
        plain_word = _word_bytes(self._left_bits + slot_bits)
        n_nodes = len(self._inner)
        self.is_shared = self.counts_by_slot = False
        word = _word_bytes(self._left_bits + slot_bits + index_bits)
        if word:
            # One numbering for all slots, if that takes no more bytes.
            all_bits = bits_for(max(0, len(shared) - 1))
            self.counts_by_slot = word != _word_bytes(
                self._left_bits + slot_bits + all_bits
            )
            cost = n_nodes * word + len(shared) * key_bytes
            if self.counts_by_slot:
                cost += byte_width(int(first[-1])) * n_slots
            else:
                index_bits, within = all_bits, which.ravel()
            self.is_shared = cost < n_nodes * (plain_word + key_bytes)
        self._index_bits = index_bits if self.is_shared else 0
        self._word_bytes = word if self.is_shared else plain_word
        self._width = self._word_bytes + (0 if self.is_shared else key_bytes)
        self._within, self._shared, self._first = within, shared[:, 1], first

    def add_tables(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        words = (self._slot << (self._left_bits + self._index_bits)).astype(np.uint64)
        words |= self.preorder.n_left[self._inner].astype(np.uint64)
        key_bytes = BYTES[self.slots.key_type]
        self._set_source(tables)
        if self.is_shared:
            words |= (self._within << self._left_bits).astype(np.uint64)
            node = packed_bytes(words, self._word_bytes)
            thresholds = packed_bytes(self._shared, key_bytes)
            tables.add("P_threshold", thresholds, "uint8_t", "thresholds by slot")
            if self.counts_by_slot:
                width = byte_width(int(self._first[-1]))
                first = packed_bytes(self._first[:-1], width)
                tables.add("P_first", first, "uint8_t", "where those of a slot begin")
        else:
            node = np.concatenate(
                [
                    packed_bytes(words, self._word_bytes).reshape(-1, self._word_bytes),
                    packed_bytes(self._key, key_bytes).reshape(-1, key_bytes),
                ],
                axis=1,
            ).ravel()
        tables.add("P_node", node, "uint8_t", "inner nodes in preorder")
        start = self.preorder.start
        width = byte_width(int(start[-1]))
        tables.add(
            "P_tree_start",
            packed_bytes(start, width),
            "uint8_t",
            "inner nodes before a tree",
        )
        self._start_bytes = width
        leaves = np.flatnonzero(self.forest.feature < 0)
        codes = np.zeros(len(leaves), dtype=np.int64)
        codes[self.preorder.leaf[leaves]] = value_index[leaves]
        self._code_source = _add_codes(tables, codes)

    def holds_values(
        self, index: NDArray[np.int64], patterns: NDArray[np.int64], n_bytes: int
    ) -> bool:
        leaves = self.forest.feature < 0
        table = n_bytes * (int(index.max(initial=0)) + 1)
        return _code_bytes(patterns[leaves]) <= _code_bytes(index[leaves]) + table

    def add_node_values(self, tables: Tables, value_index: NDArray[np.int64]) -> None:
        values = value_index[self._inner]
        width = byte_width(int(values.max(initial=0)))
        tables.add(
            "P_inner", packed_bytes(values, width), "uint8_t", "values of inner nodes"
        )
        self._inner_bytes = width

    def add_own_order(self, tables: Tables, position: NDArray[np.int64]) -> None:
        kind = unsigned_type(max(int(position.max()), 256))
        tables.add("P_position", position, kind, "where each tree of the model is")

    @property
    def is_direct(self) -> bool:
        return self.slots.is_plain

    @property
    def keys_type(self) -> str:
        return self.slots.row_type if self.is_direct else self.slots.key_type

    def _look(self) -> dict[str, str | int]:
        slots, key_bytes = self.slots, BYTES[self.slots.key_type]
        shift = self._left_bits + self._index_bits
        look_bytes, slot = self._word_bytes, f"(word >> {shift})"
        where, limit = "", f"P_GET{key_bytes}(node + {self._word_bytes})"
        if self.is_shared:
            index = f"((size_t)(word >> {self._left_bits})"
            index += f" & {(1 << self._index_bits) - 1}u)"
            if self.counts_by_slot:
                width = byte_width(int(self._first[-1]))
                where = f"        const uint8_t *first = P_first + {width} * slot;\n"
                index = f"(P_GET{width}(first) + {index})"
            # Bytes behind one pointer become one load where the processor has it.
            where += "        const uint8_t *shared = "
            where += f"P_threshold + {key_bytes} * {index};\n"
            limit = f"P_GET{key_bytes}(shared)"
        elif self._width <= 4:  # the whole node in one register
            look_bytes, limit = self._width, f"(word >> {8 * self._word_bytes})"
            slot = f"(word >> {shift} & {(1 << (8 * self._word_bytes - shift)) - 1}u)"
        right = "key > limit"
        if slots.has_categories:
            right = (
                f"slot < {slots.n_category_slots}u ? !P_in_set(key, (size_t)limit) "
                f": {right}"
            )
        parts: dict[str, str | int] = {
            "row": self.keys_type,
            "word": "uint64_t" if self._word_bytes > 4 else "uint32_t",
            "word_bytes": self._word_bytes,
            "look_bytes": look_bytes,
            "width": self._width,
            "left_mask": f"{(1 << self._left_bits) - 1}u",
            "slot": slot,
            "slot_shift": shift,
            "where": where,
            "limit": limit,
        }
        return parts | {"look": fill(PACKED_LOOK, **parts), "right": right}

    def common_source(self, single: bool) -> str:
        n = self._start_bytes
        start = (
            f"#define P_START(tree) ((size_t)P_GET{n}(P_tree_start + {n} * (tree)))\n"
        )
        if not single:
            start = ""
        return in_set_source(self.slots) + start + self._code_source

    def walk_source(self, drops: bool = False) -> str:
        by_pointer = self._width.bit_count() == 1
        template = PACKED_WALK_BY_POINTER if by_pointer else PACKED_WALK
        return fill(template, start_bytes=self._start_bytes, **self._look())

    def leaf_of(self, tree: str, own: bool) -> str:
        which = f"P_position[{tree}]" if own else tree
        return f"        at = P_walk(keys, {which});\n"

    def value_of(self, at: str) -> str:
        return f"P_CODE({at})"

    @property
    def _at_type(self) -> str:
        return unsigned_type(int(self.preorder.start[-1]) + self.forest.n_trees)

    def step_source(self) -> str:
        n = self._inner_bytes
        inner = f"#define P_INNER_CODE(at) P_GET{n}(P_inner + {n} * (size_t)(at))\n"
        return inner + fill(PACKED_STEP, at=self._at_type, **self._look())

    @property
    def cursor(self) -> str:
        """Definition of the type of a cursor, for the header."""
        return f"typedef struct {{\n    {self._at_type} at, leaf, inner;\n}} P_cursor;"

    @property
    def cursor_bytes(self) -> int:
        """Bytes of a cursor."""
        return 3 * BYTES[self._at_type]

    def buying_source(self) -> str:
        return fill(PACKED_BUYING, **self._look())


def _code_bits(codes: NDArray[np.int64]) -> int:
    """Return the bits of a code of a leaf: 0 if all are 0, 1, 2, 4 or whole bytes."""
    largest = int(codes.max(initial=0))
    if largest == 0:
        return 0
    few = next((b for b in (1, 2, 4) if largest < 1 << b), 0)
    return few or 8 * byte_width(largest)


def _code_bytes(codes: NDArray[np.int64]) -> int:
    """Return the bytes that the codes of all leaves take."""
    return -(-len(codes) * _code_bits(codes) // 8)


def _add_codes(tables: Tables, codes: NDArray[np.int64]) -> str:
    """Add the value index of each leaf, and return the function that reads it."""
    bits, kind = _code_bits(codes), value_type(codes)
    if bits == 0:
        return fill(CODE, type=kind, code="0 * leaf")
    if bits >= 8:
        width = bits // 8
        tables.add(
            "P_code", packed_bytes(codes, width), "uint8_t", "value of each leaf"
        )
        times = f"{width} * leaf" if width > 1 else "leaf"
        return fill(CODE, type=kind, code=f"({kind})P_GET{width}(P_code + {times})")
    per_byte = 8 // bits
    padded = np.zeros(-(-len(codes) // per_byte) * per_byte, dtype=np.int64)
    padded[: len(codes)] = codes
    shifts = np.arange(per_byte) * bits
    packed = (padded.reshape(-1, per_byte) << shifts).sum(axis=1)
    tables.add("P_code", packed, "uint8_t", f"value of each leaf, {bits} bits each")
    shift = f"{bits} * (leaf % {per_byte})" if bits > 1 else f"(leaf % {per_byte})"
    return fill(
        CODE,
        type=kind,
        code=f"(size_t)(P_READ(&P_code[leaf / {per_byte}]) >> {shift}) & "
        f"{(1 << bits) - 1}u",
    )
