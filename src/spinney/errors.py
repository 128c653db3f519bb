"""Errors and warnings that spinney raises on purpose.

Each one also inherits from the builtin exception a caller would expect, so that
``except ValueError`` keeps working for those who do not know spinney's own names.
"""

from __future__ import annotations


class SpinneyError(Exception):
    """Base of every error that spinney raises on purpose."""


class UnsupportedModelError(SpinneyError, TypeError):
    """A model, or a part of a model, that cannot be read exactly."""


class InvalidForestError(SpinneyError, ValueError):
    """Arrays that do not describe a forest of binary trees."""


class FormatError(SpinneyError, ValueError):
    """A file that is damaged, forged, or not one of spinney's."""


class InvalidArgumentError(SpinneyError, ValueError, TypeError):
    """An argument of the wrong kind or outside its range.

    Like scikit-learn's errors about parameters, both a ValueError and a TypeError.
    """


class PollDecidedError(SpinneyError, RuntimeError, ValueError):
    """A vote cast in a poll that is already decided."""


class SpinneyWarning(UserWarning):
    """Something that still works, but perhaps not as the caller expects."""
