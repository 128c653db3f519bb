"""What leaves say, each different thing once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import BYTES, Tables, packed_bytes


def distinct(
    nodes: NDArray[np.intp], n_nodes: int, *columns: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the different rows of some arrays, in the order in which they come up.

    Parameters
    ----------
    nodes : ndarray of int
        The nodes whose rows count.
    n_nodes : int
        Number of all nodes.
    *columns : ndarray of shape (n_nodes, any)
        What is to be told apart, bit by bit.

    Returns
    -------
    index : ndarray of shape (n_nodes,), dtype=int64
        Number of the row of each of `nodes`; 0 at all others.
    first : ndarray of shape (n_distinct,)
        A node that has each row.
    """
    parts = [
        np.ascontiguousarray(column[nodes]).reshape(len(nodes), -1)
        for column in columns
    ]
    patterns = [
        part.view(f"u{part.dtype.itemsize}").astype(np.uint64) for part in parts
    ]
    joined = np.concatenate(patterns, axis=1)
    _, seen, which = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(seen))
    index = np.zeros(n_nodes, dtype=np.int64)
    index[nodes] = rank[which.ravel()]
    return index, nodes[np.sort(seen)]


def bit_patterns(values: NDArray[Any], ctype: str) -> NDArray[np.int64]:
    """Return integers as the bits of their type, which are never negative.

    Parameters
    ----------
    values : ndarray of int
        Integers.
    ctype : str
        An integer type of at most 32 bits that holds them.
    """
    return np.asarray(values, dtype=np.int64) & ((1 << (8 * BYTES[ctype])) - 1)


def add_values(
    tables: Tables, name: str, rows: NDArray[Any], ctype: str, in_bytes: bool
) -> str:
    """Add a table of values; return how to read the value at index ``$i``.

    Parameters
    ----------
    tables : Tables
        Added to.
    name : str
        Name of the table.
    rows : ndarray
        The values.
    ctype : str
        Type of a value.
    in_bytes : bool
        Whether integers are written as bytes, put together as they are read.

    Returns
    -------
    reader : str
        An expression with ``{i}`` in it.
    """
    if not in_bytes or ctype in ("float", "double"):
        tables.add(name, rows, ctype)
        return name + "[{i}]"
    n_bytes = BYTES[ctype]
    mask = (1 << (8 * n_bytes)) - 1
    unsigned = np.array([int(v) & mask for v in rows.ravel().tolist()], dtype=np.uint64)
    tables.add(name, packed_bytes(unsigned, n_bytes), "uint8_t")
    place = f"{name} + {n_bytes} * ({{i}})" if n_bytes > 1 else f"{name} + ({{i}})"
    return f"({ctype})P_GET{n_bytes}({place})"
