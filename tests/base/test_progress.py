"""Progress is drawn for people who wait at a terminal, and for nobody else."""

from __future__ import annotations

import io
import sys
import time

import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney
from spinney.base import progress
from spinney.base.progress import counted


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


def test_a_file_gets_no_bar_unless_it_is_wanted(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    assert progress.progress_for(None, "waiting") is progress.say_nothing
    assert progress.progress_for(False, "waiting") is progress.say_nothing
    progress.progress_for(True, "waiting")(1.0)
    assert "waiting" in written.getvalue()
    assert progress.progress_for(print, "waiting") is print


def test_things_made_one_by_one_are_counted():
    shares: list[float] = []
    makers = counted([lambda: "a", lambda: "b"], shares.append, 0.5, 0.9)
    assert shares == []
    assert [make() for make in makers] == ["a", "b"]
    assert shares == pytest.approx([0.5, 0.7])


def test_calls_that_take_long_show_how_far_they_are(capsys):
    X, y = make_classification(400, 6, random_state=0)
    forest = RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, y)
    shares: list[float] = []
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(forest),
        max_disagreement=0.05,
        random_state=0,
        verbose=shares.append,
    ).fit(X)
    assert len(shares) > 4
    check_shares(shares)
    quick.report(X, y, verbose=shares.append)
    assert len(shares) > 4
    check_shares(shares)
    spinney.BudgetedForestClassifier(
        max_trees=3, random_state=0, verbose=shares.append
    ).fit(X, y)
    assert len(shares) == 4
    check_shares(shares)
    assert capsys.readouterr().err == ""
    quick.set_params(verbose=True).fit(X)
    assert "calibrating [" in capsys.readouterr().err


def check_shares(shares):
    """Check that what was shown never goes back and ends at 1, and forget it."""
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert shares.count(1.0) == 1
    shares.clear()
