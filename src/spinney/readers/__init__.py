"""From a fitted model, or a model file, to a `Forest`."""

from spinney.readers.dispatch import read_model

__all__ = ["read_model"]
