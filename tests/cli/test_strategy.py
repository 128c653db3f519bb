"""``spinney strategy``, called as a user calls it."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from spinney import StoppingStrategy, optimal_strategy
from spinney.cli import strategy as command
from spinney.cli.app import app


def in_process(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(app, ["strategy", *arguments])


def test_prints_thresholds_expected_votes_and_the_bound(tmp_path, call_here):
    out = tmp_path / "strategy.json"
    done = call_here(
        "strategy", "-n", "21", "--max-disagreement", "1e-3", "--objective", "minimax",
        "--out", str(out),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    best = optimal_strategy(21, 1e-3, objective="minimax")
    assert f"Expected votes (worst): {best.expected_votes:.6f} of 21" in done.stdout
    assert f"fewer than {best.lower_bound:.6f}" in done.stdout
    assert "promised at most 0.001 (exact proof)" in done.stdout
    assert "positive from" in done.stdout
    assert "stop with probability" in done.stdout
    written = StoppingStrategy.from_dict(json.loads(out.read_text()))
    assert written.to_dict() == best.to_dict()


def test_json_is_one_document_on_standard_output():
    done = in_process("-n", "7", "--max-disagreement", "0.05", "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document == optimal_strategy(7, 0.05).to_dict()


def test_options_reach_the_solver():
    done = in_process(
        "-n", "7", "--max-disagreement", "0.05", "--objective", "minimixed",
        "--min-votes", "0", "--round", "deterministic", "--json",
    )  # fmt: skip
    expected = optimal_strategy(
        7, 0.05, objective="minimixed", min_votes=0, round="deterministic"
    )
    assert json.loads(done.stdout) == expected.to_dict()


def test_many_steps_are_shortened():
    done = in_process("-n", "101", "--max-disagreement", "0")
    assert "One step in 6 is shown" in done.stdout
    assert "Expected votes (mean): 70.203463 of 101" in done.stdout


def test_quiet_prints_nothing_and_still_writes(tmp_path):
    out = tmp_path / "strategy.json"
    done = in_process("-n", "5", "--quiet", "--out", str(out))
    assert (done.exit_code, done.output) == (0, "")
    assert json.loads(out.read_text())["n_voters"] == 5


@pytest.mark.parametrize(("n_voters", "shown"), [(9, True), (8, False)])
def test_a_bar_is_shown_while_many_voters_are_solved(monkeypatch, n_voters, shown):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True)
    monkeypatch.setattr(command, "MANY_VOTERS", 9)
    monkeypatch.setattr(command, "output", lambda quiet: terminal)
    assert in_process("-n", str(n_voters), "--max-disagreement", "0.05").exit_code == 0
    assert ("solving" in screen.getvalue()) == shown


def test_long_lists_of_states_are_cut(monkeypatch):
    monkeypatch.setattr(command, "N_ROWS", 1)
    done = in_process("-n", "9", "--max-disagreement", "0.05")
    assert "... and 1 more states that may stop." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-n", "0"), "n_voters must be an integer of at least 1, got 0"),
        (("-n", "5", "--max-disagreement", "1.5"), "must be in [0, 1), got 1.5"),
        (
            ("-n", "5", "--min-votes", "9"),
            "min_votes must be an integer from 0 to 5, got 9",
        ),
        (("-n", "5", "--out", "missing-folder/x.json"), "no directory"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(arguments, message):
    done = in_process(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "arguments", [(), ("-n", "x"), ("-n", "5", "--objective", "?")]
)
def test_bad_arguments_end_with_exit_code_2(arguments):
    assert in_process(*arguments).exit_code == 2
