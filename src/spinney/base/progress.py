"""A plain progress bar on standard error."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

T = TypeVar("T")

WIDTH = 40
# Seconds between two drawings.
PAUSE = 0.2
# Seconds after which somebody at a terminal wants to know what is going on.
PATIENCE = 2.0


def progress_for(
    verbose: bool | Callable[[float], None] | None, what: str
) -> Callable[[float], None]:
    """Return what is to be called with the share of the work that is done.

    Parameters
    ----------
    verbose : bool, callable or None
        True for a bar on standard error, False for nothing, or what is to be called
        itself. None for a bar in interactive use: if standard error is a terminal,
        and the work takes more than two seconds.
    what : str
        What is going on, in a word.
    """
    if callable(verbose):
        return verbose
    if verbose is None:
        return PatientBar(what) if sys.stderr.isatty() else say_nothing
    return TextBar(what) if verbose else say_nothing


def say_nothing(share: float) -> None:
    """Ignore the share of the work that is done."""


def counted(
    makers: Sequence[Callable[[], T]],
    show: Callable[[float], None],
    begin: float,
    end: float,
) -> list[Callable[[], T]]:
    """Return what makes the same things, and shows how many have been made.

    Parameters
    ----------
    makers : sequence of callables
        They are called in this order, perhaps not all of them.
    show : callable
        Called with the share of the work that is done.
    begin, end : float
        The share before the first of them, and after the last.
    """

    def made(number: int, make: Callable[[], T]) -> T:
        show(begin + (end - begin) * number / len(makers))
        return make()

    return [partial(made, number, make) for number, make in enumerate(makers)]


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


class PatientBar(TextBar):
    """Draws the share of the work that is done, once it has taken a while.

    A timer draws it then, even if nothing is said about the work at that moment.

    Parameters
    ----------
    what : str
        What is going on.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._share = 0.0
        self._is_late = False
        # Without a reference to the bar: with the work gone, so is its timer.
        self._timer = threading.Timer(PATIENCE, _draw, [weakref.ref(self)])
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, share: float) -> None:
        """Draw the bar, if it is time to.

        Parameters
        ----------
        share : float
            From 0 to 1. With 1 the line is ended.
        """
        self._share = share
        if share >= 1.0:
            self._timer.cancel()
        if self._is_late:
            super().__call__(share)

    def draw_late(self) -> None:
        """Draw the bar from now on."""
        self._is_late = True
        self(self._share)

    def __del__(self) -> None:
        self._timer.cancel()


def _draw(bar: weakref.ref[PatientBar]) -> None:
    """Draw a bar, unless the work is over."""
    alive = bar()
    if alive is not None:
        alive.draw_late()
