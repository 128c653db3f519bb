"""What every reader says about a model that has not been trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.exceptions import NotFittedError


def not_fitted(model: Any, call: str = "its fit") -> NotFittedError:
    """Return the error for an untrained model; `call` is what would train it."""
    from sklearn.exceptions import NotFittedError

    msg = (
        f"This {type(model).__name__} has not been trained yet. Call {call} before "
        "spinney reads it."
    )
    return NotFittedError(msg)


def require_fitted(model: Any, attribute: str) -> None:
    """Raise `NotFittedError` unless training has left `attribute` on `model`."""
    if not hasattr(model, attribute):
        raise not_fitted(model)
