"""Progress is drawn for people who wait at a terminal, and for nobody else."""

from __future__ import annotations

import io
import sys
import time

from spinney.base import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def at_a_terminal(monkeypatch):
    # In the test itself: pytest puts its own stream there after fixtures.
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    return shown


def test_what_takes_long_is_shown_at_a_terminal(monkeypatch):
    terminal = at_a_terminal(monkeypatch)
    show = progress.progress_for(None, "waiting")
    show(0.2)
    assert terminal.getvalue() == ""
    until = time.monotonic() + 10.0
    while not terminal.getvalue() and time.monotonic() < until:
        time.sleep(0.05)  # nothing is said meanwhile: the timer draws
    assert "waiting" in terminal.getvalue()
    assert "20%" in terminal.getvalue()
    show(1.0)
    assert terminal.getvalue().endswith("100%\n")


def test_what_is_quick_is_not(monkeypatch):
    terminal = at_a_terminal(monkeypatch)
    show = progress.progress_for(None, "waiting")
    show(0.5)
    show(1.0)
    time.sleep(0.2)
    assert terminal.getvalue() == ""


def test_work_that_has_failed_draws_nothing(monkeypatch):
    terminal = at_a_terminal(monkeypatch)
    show = progress.progress_for(None, "waiting")
    show(0.5)
    del show
    time.sleep(0.2)
    assert terminal.getvalue() == ""


def test_a_file_gets_no_bar_unless_it_is_asked_for(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    assert progress.progress_for(None, "waiting") is progress._say_nothing
    assert progress.progress_for(False, "waiting") is progress._say_nothing
    progress.progress_for(True, "waiting")(1.0)
    assert "waiting" in written.getvalue()
    assert progress.progress_for(print, "waiting") is print
