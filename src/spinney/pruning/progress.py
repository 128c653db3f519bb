"""A plain progress bar on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

WIDTH = 40
# Seconds between two drawings.
PAUSE = 0.2


def progress_for(verbose: bool | Callable[[float], None]) -> Callable[[float], None]:
    """Return what is to be called with the share of the work that is done.

    Parameters
    ----------
    verbose : bool or callable
        True for a bar on standard error, False for nothing, or what is to be called
        itself.
    """
    if callable(verbose):
        return verbose
    return TextBar() if verbose else _say_nothing


def _say_nothing(share: float) -> None:
    """Ignore the share of the work that is done."""


class TextBar:
    """Draws the share of the work that is done."""

    def __init__(self) -> None:
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
        print(f"\rpruning [{bar}] {share:4.0%}", end=end, file=sys.stderr, flush=True)
