"""A plain progress bar on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

WIDTH = 40
# Seconds between two drawings.
PAUSE = 0.2


def progress_for(
    verbose: bool | Callable[[float], None], what: str
) -> Callable[[float], None]:
    """Return what is to be called with the share of the work that is done.

    Parameters
    ----------
    verbose : bool or callable
        True for a bar on standard error, False for nothing, or what is to be called
        itself.
    what : str
        What is going on, in a word.
    """
    if callable(verbose):
        return verbose
    return TextBar(what) if verbose else _say_nothing


def _say_nothing(share: float) -> None:
    """Ignore the share of the work that is done."""


class TextBar:
    """Draws the share of the work that is done.

    Parameters
    ----------
    what : str
        What is going on.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._drawn = 0.0

    def __call__(self, share: float) -> None:
        """Draw the bar, if it is time to.

        Parameters
        ----------
        share : float
            From 0 to 1. With 1 the line is ended.
        """
        now = time.monotonic()
        if share < 1.0 and now - self._drawn < PAUSE:
            return
        self._drawn = now
        filled = round(WIDTH * share)
        bar = "#" * filled + "." * (WIDTH - filled)
        end = "\n" if share >= 1.0 else ""
        line = f"\r{self._what} [{bar}] {share:4.0%}"
        print(line, end=end, file=sys.stderr, flush=True)
