"""Names of step orders, apart from what makes them: a wrong name is told at once."""

from __future__ import annotations

from spinney.errors import InvalidArgumentError

TREE_SEQUENCES = (
    "natural",
    "individual_error",
    "error_ambiguity",
    "reduced_error",
    "drep",
    "qwyc",
)
ORDERS = (
    "optimal",
    "unoptimal",
    "forward_squirrel",
    "backward_squirrel",
    "random",
    "depth",
    "breadth",
    *(f"depth_{name}" for name in TREE_SEQUENCES),
    *(f"breadth_{name}" for name in TREE_SEQUENCES),
)


def check_order_name(name: str) -> None:
    """Raise unless there is a step order of this name.

    Parameters
    ----------
    name : str
        The name.
    """
    if name not in ORDERS:
        msg = (
            f"order must be one of {', '.join(map(repr, ORDERS))}, or an array with a "
            f"tree index per step; got {name!r}."
        )
        raise InvalidArgumentError(msg)
