"""Forests whose trees each vote for a class, and the refusal of all others."""

from __future__ import annotations

from spinney.errors import UnsupportedModelError
from spinney.forest.forest import Forest


def check_votes_by_class(forest: Forest, name: str) -> None:
    """Raise unless each tree of a forest votes for a class.

    Parameters
    ----------
    forest : Forest
        The forest.
    name : str
        What needs such trees, for the message.
    """
    if forest.votes_by_class:
        return
    if forest.classes_ is None:
        msg = (
            f"{name} needs a classifier, got a forest of regression trees "
            f"({forest.source}). Errors are counted by class: train a classifier."
        )
    else:
        msg = (
            f"{name} needs trees that each vote for a class, but those of this "
            f"model ({forest.source or 'boosting'}) add to a score, and one tree alone "
            "is neither right nor wrong. Train a random forest, extra trees or bagging."
        )
    raise UnsupportedModelError(msg)
