"""The installed command, called as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spinney
from spinney.cli.app import app

COMMAND = Path(sys.executable).with_name("spinney")
SUBCOMMANDS = ("anytime", "demo", "prune", "strategy", "warm-up")

RESULT = {
    "spinney": "0.0",
    "scikit_learn": "0.0",
    "trees": 101,
    "nodes": 30_000,
    "features": 64,
    "classes": 10,
    "rows": 20_000,
    "rows_that_differ": 0,
    "first_call_seconds": 0.5,
    "early_stopping": {
        "max_disagreement": 0.005,
        "disagreement": 0.0041,
        "trees_asked": 12.3,
    },
    "batch": {
        "scikit_learn_microseconds_per_row": 20.0,
        "all_trees_microseconds_per_row": 5.0,
        "early_stopping_microseconds_per_row": 2.0,
        "all_trees_ratio": 4.0,
        "early_stopping_ratio": 10.5,
    },
    "single_row": {
        "scikit_learn_microseconds_per_row": 5_000.0,
        "all_trees_microseconds_per_row": 10.0,
        "early_stopping_microseconds_per_row": 4.0,
        "all_trees_ratio": 500.0,
        "early_stopping_ratio": 1_250.0,
    },
}


def call(*command):
    """Run a command as in a plain terminal, whatever the tests themselves run in."""
    forced = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
    environment = {k: v for k, v in os.environ.items() if k not in forced}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"TERM": "dumb", "COLUMNS": "88"},
    )


def run(*arguments):
    """Run the installed command."""
    assert COMMAND.exists(), "spinney is not installed in this environment: make test"
    return call(COMMAND, *arguments)


@pytest.fixture
def measured(monkeypatch):
    """Let the demo find a given result instead of measuring one."""

    def give(**changes):
        result = RESULT | changes
        monkeypatch.setattr("spinney.cli.demo._measure", lambda console: result)

    return give


@pytest.fixture
def failing(monkeypatch):
    """Let the demo fail."""

    def fail(console):
        msg = "expected a model, got [this]."
        raise ValueError(msg)

    monkeypatch.setattr("spinney.cli.demo._measure", fail)


def in_process(*arguments):
    """Run the command in this process, where parts of it can be replaced."""
    return CliRunner().invoke(app, arguments)


def test_version_is_that_of_the_package():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout == f"spinney {spinney.__version__}\n"
    assert done.stderr == ""


def test_module_can_be_run_like_the_command():
    done = call(sys.executable, "-m", "spinney", "--version")
    assert done.stdout == run("--version").stdout


def test_help_names_every_subcommand_and_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    for name in SUBCOMMANDS:
        assert name in done.stdout
    assert "Example: spinney" in done.stdout


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_help_of_a_subcommand_has_an_example(subcommand):
    done = run(subcommand, "--help")
    assert done.returncode == 0
    assert f"spinney {subcommand}" in done.stdout.partition("Example: ")[2]


@pytest.mark.parametrize(
    "arguments", [("demo", "--nope"), ("demo", "extra"), ("nope",), ("--nope",), ()]
)
def test_bad_arguments_end_with_exit_code_2_and_no_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr


def test_demo_shows_equal_answers_and_both_times(measured):
    measured()
    done = in_process("demo")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Same answer on 20,000 of 20,000 rows" in done.stdout
    for number in ("20.0", "5.0", "4.0", "5,000.0", "10.0", "500.0", "0.5 s"):
        assert number in done.stdout
    for number in ("12.3 of 101 trees", "0.41%", "0.50%", "2.0", "10.5", "1,250.0"):
        assert number in done.stdout


def test_demo_finds_equal_answers_and_prints_one_json_document():
    done = run("demo", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document.keys() == RESULT.keys()
    assert document["spinney"] == spinney.__version__
    assert document["trees"] == 101
    assert document["rows_that_differ"] == 0
    for kind in ("batch", "single_row"):
        times = document[kind]
        assert times.keys() == RESULT[kind].keys()
        for way in ("all_trees", "early_stopping"):
            assert times[f"{way}_ratio"] == pytest.approx(
                times["scikit_learn_microseconds_per_row"]
                / times[f"{way}_microseconds_per_row"]
            )
    early = document["early_stopping"]
    assert early["disagreement"] <= 2 * early["max_disagreement"]
    assert 1 <= early["trees_asked"] < 101


def test_quiet_demo_prints_nothing(measured):
    measured()
    done = in_process("demo", "--quiet")
    assert (done.exit_code, done.output) == (0, "")


@pytest.mark.parametrize("option", [(), ("--json",), ("--quiet",)])
def test_demo_ends_with_exit_code_1_if_answers_differ(measured, option):
    measured(rows_that_differ=3)
    done = in_process("demo", *option)
    assert done.exit_code == 1
    assert "3 of 20,000 answers differ" in done.stderr


def test_an_error_is_one_message_without_a_traceback(failing):
    done = in_process("demo")
    assert done.exit_code == 2
    assert "expected a model, got [this]." in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.output


def test_debug_shows_where_an_error_happened(failing):
    done = in_process("demo", "--debug")
    assert isinstance(done.exception, ValueError)


def test_warm_up_tells_the_time_of_each_kernel_and_where_they_are_kept():
    done = run("warm-up", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["kernels"]
    assert all(kernel["seconds"] >= 0 for kernel in document["kernels"])
    assert document["seconds"] >= max(k["seconds"] for k in document["kernels"])
    for folder in document["cache"]:
        assert list(Path(folder).glob("*.nbi"))
    assert document["cache"]


def test_warm_up_prints_a_table_for_people():
    done = run("warm-up")
    assert done.returncode == 0, done.stderr
    assert "kernels ready after" in done.stdout
    assert "Kept in " in done.stdout


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_its_libraries_the_command_names_the_extra_to_install(library):
    code = f"""
import sys
sys.modules[{library!r}] = None  # importing it now fails as if it were not there
from spinney.cli import main
main()
"""
    done = call(sys.executable, "-c", code)
    assert done.returncode == 2
    assert f"needs {library}" in done.stderr
    assert "spinney[cli]" in done.stderr
    assert "Traceback" not in done.stderr
