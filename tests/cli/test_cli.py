"""The command as a whole: help, version, errors, interruptions, warm-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import spinney
from spinney.cli import console as console_module
from spinney.cli import outputs
from spinney.cli.app import app
from spinney.cli.console import complain, output, plain_errors, progress_bar
from spinney.errors import SpinneyWarning
from spinney.runtime import compile_notice
from spinney.runtime.kernel_sources import PACKAGE

SUBCOMMANDS = (
    "accelerate",
    "anytime",
    "bench",
    "demo",
    "export",
    "inspect",
    "predict",
    "prune",
    "strategy",
    "warm-up",
)


def in_process(*arguments):
    """Run the command in this process, where parts of it can be replaced."""
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def warm_up_that(monkeypatch):
    """Let a command fail in a given way as soon as it begins its work."""

    def give(error):
        def fail(quiet):
            raise error

        monkeypatch.setattr("spinney.cli.warm_up.output", fail)

    return give


def test_version_is_that_of_the_package(call, installed):
    done = call(installed, "--version")
    assert done.returncode == 0
    assert done.stdout == f"spinney {spinney.__version__}\n"
    assert done.stderr == ""


def test_module_can_be_run_like_the_command(call):
    done = call(sys.executable, "-m", "spinney", "--version")
    assert done.stdout == f"spinney {spinney.__version__}\n"


def test_help_names_every_subcommand_and_has_an_example():
    done = in_process("--help")
    assert done.exit_code == 0
    for name in SUBCOMMANDS:
        assert name in done.stdout
    assert "Example: spinney" in done.stdout


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_help_of_a_subcommand_has_an_example_and_the_common_options(subcommand):
    done = in_process(subcommand, "--help")
    assert done.exit_code == 0
    assert f"spinney {subcommand}" in done.stdout.partition("Example: ")[2]
    for option in ("--json", "--quiet", "--debug"):
        assert option in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "Usage"),
        ("nope", "No such command 'nope'"),
        ("--nope", "No such option:? '?--nope"),
        ("demo --nope", "No such option:? '?--nope"),
        ("demo --json=maybe", "--json"),
        ("warm-up --nope", "No such option:? '?--nope"),
        ("warm-up --json=maybe", "--json"),
        ("strategy", "--voters"),
        ("strategy --voters many", "--voters"),
        ("strategy --voters 5 --max-disagreement 7", "max_disagreement must be"),
        ("strategy --voters 5 --out none/x.json", "There is no directory"),
    ],
)
def test_bad_arguments_end_with_exit_code_2_and_no_traceback(words, complaint):
    done = in_process(*words.split())
    assert done.exit_code == 2
    assert re.search(complaint, " ".join(done.output.split()))
    assert "Traceback" not in done.output


@pytest.mark.parametrize("subcommand", ["accelerate", "predict"])
def test_where_to_write_must_be_said(subcommand):
    done = in_process(subcommand, "model.txt", "rows.csv")
    assert done.exit_code == 2
    assert "--out" in done.output


def test_an_error_is_one_message_without_a_traceback(warm_up_that):
    warm_up_that(ValueError("expected a model, got [this]."))
    done = in_process("warm-up")
    assert done.exit_code == 2
    assert "error: expected a model, got [this]." in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.output


def test_an_error_that_says_what_to_do_needs_no_debugging(warm_up_that):
    warm_up_that(FileNotFoundError("There is no file 'x'. Check the path."))
    done = in_process("warm-up")
    assert done.exit_code == 2
    assert done.stderr == "error: There is no file 'x'. Check the path.\n"


def test_debug_shows_where_an_error_happened(warm_up_that):
    warm_up_that(ValueError("expected a model"))
    done = in_process("warm-up", "--debug")
    assert isinstance(done.exception, ValueError)


def test_an_interruption_ends_with_exit_code_130(warm_up_that):
    warm_up_that(KeyboardInterrupt())
    for option in ((), ("--debug",)):
        done = in_process("warm-up", *option)
        assert done.exit_code == 130
        assert done.stderr == "interrupted: Stopped before the end.\n"


def test_warnings_of_spinney_become_messages_and_others_are_kept_back(capsys):
    with plain_errors(debug=False):
        warnings.warn("few [rows]", SpinneyWarning, stacklevel=1)
        warnings.warn("names of columns", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: few [rows]\n"
    with (
        pytest.warns(UserWarning, match="names of columns"),
        plain_errors(debug=True),
    ):
        warnings.warn("names of columns", UserWarning, stacklevel=1)


def test_messages_break_between_words_at_a_terminal(monkeypatch, capsys):
    message = " ".join(["There is no column 'weight', and nothing like it."] * 3)
    complain(message)
    assert capsys.readouterr().err == f"error: {message}\n"
    monkeypatch.setattr(console_module.Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "40")
    complain(message)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 40
    assert " ".join(map(str.strip, lines)) == f"error: {message}"


def test_a_terminal_does_not_obey_what_a_message_quotes_from_a_file(capsys):
    complain("row 4 holds \x1b[2J\x07\nand more")
    assert capsys.readouterr().err == "error: row 4 holds \ufffd[2J\ufffd\nand more\n"


def test_a_warning_waits_until_the_bar_is_gone(capsys):
    with plain_errors(debug=False):
        with progress_bar(output(quiet=False), "working") as show:
            warnings.warn("few rows", SpinneyWarning, stacklevel=1)
            show(0.5)
            assert capsys.readouterr().err == ""
        assert capsys.readouterr().err == "warning: few rows\n"
        warnings.warn("fewer rows", SpinneyWarning, stacklevel=1)
        assert capsys.readouterr().err == "warning: fewer rows\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_means_that_slow_compilation_is_not_mentioned(monkeypatch, capfd, quiet):
    notice = compile_notice._Notice()
    monkeypatch.setattr(compile_notice, "_notice", notice)
    monkeypatch.setattr(compile_notice, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(compile_notice, "_is_interactive", lambda: True)
    with plain_errors(debug=False, quiet=quiet):
        compile_notice.begin("add_trees")
        if notice.timer is not None:
            notice.timer.join()
        compile_notice.end()
    assert ("compiling add_trees" in capfd.readouterr().err) == (not quiet)


def test_a_way_out_is_no_error():
    with pytest.raises(typer.Exit), plain_errors(debug=False):
        raise typer.Exit(1)


def test_a_bar_is_drawn_in_terminals_only(monkeypatch, capsys):
    console = output(quiet=False)
    with progress_bar(console, "working") as show:
        show(0.5, "halfway")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = output(quiet=False)
    with progress_bar(console, "working") as show:
        show(0.5, "halfway")
    drawn = capsys.readouterr().out
    assert "working" in drawn
    assert "halfway" in drawn


def test_warm_up_tells_the_time_of_each_kernel_and_where_they_are_kept(call, installed):
    done = call(installed, "warm-up", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["kernels"]
    assert all(kernel["seconds"] >= 0 for kernel in document["kernels"])
    assert document["seconds"] >= max(k["seconds"] for k in document["kernels"])
    for folder in document["cache"]:
        assert list(Path(folder).glob("*.nbc"))
    assert document["cache"]


def test_warm_up_prints_a_table_for_people(call_here):
    done = call_here("warm-up")
    assert done.returncode == 0, done.stderr
    assert "kernels ready after" in done.stdout
    assert "Kept in " in done.stdout


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_its_libraries_the_command_names_the_extra_to_install(call, library):
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


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        (
            "accelerate model.txt rows.csv -o new.spinney --report r.html",
            "jinja2",
            "report",
        ),
        (
            "prune forest.spinney rows.csv --target ill --plot p.svg",
            "matplotlib",
            "plot",
        ),
        ("anytime model.txt rows.csv --target ill --plot p.svg", "matplotlib", "plot"),
    ],
)
def test_a_library_that_is_missing_is_named_before_any_work_is_done(
    work, call_here, monkeypatch, words, library, extra
):
    real = outputs.find_spec
    monkeypatch.setattr(
        outputs, "find_spec", lambda name: None if name == library else real(name)
    )
    monkeypatch.chdir(work)
    done = call_here(*words.split())
    assert done.returncode == 2
    assert f"needs {library}" in done.stderr
    assert f"spinney[{extra}]" in done.stderr
    assert not (work / "new.spinney").exists()


# Commands that end with an error, and so should at once: nothing that takes long to
# import is worth importing for it.
WRONG = (
    ("predict", "none.spinney", "rows.csv", "-o", "out.csv"),
    ("predict", "fast.spinney", "none.csv", "-o", "out.csv"),
    ("predict", "fast.spinney", "rows.csv", "-o", "out.xlsx"),
    (
        "predict",
        "fast.spinney",
        "rows.csv",
        "-o",
        "out.csv",
        "--keep",
        "a",
        "--keep",
        "a",
    ),
    ("accelerate", "model.joblib", "rows.csv", "-o", "out.spinney"),
    ("accelerate", "model.txt", "rows.csv", "-o", "out.spinney", "--threshold", "2"),
    ("accelerate", "model.txt", "rows.csv", "-o", "out", "--max-disagreement", "a=7"),
    ("inspect", "none.spinney"),
    ("inspect", "corrupt.txt"),
    ("inspect", "rows.csv"),
    ("bench", "model.txt", "empty.csv"),
    ("prune", "model.txt", "rows.csv", "--budget", "3", "--costs", "none.json"),
    ("prune", "model.txt", "rows.csv"),
    ("prune", "model.txt", "rows.csv", "--target", "ill", "--budget", "-1"),
    ("anytime", "none.txt", "rows.csv"),
    ("anytime", "model.txt", "head.csv", "--target", "ill"),
    ("anytime", "model.txt", "rows.csv", "--target", "ill", "--plot", "out.docx"),
    ("accelerate", "model.txt", "rows.csv", "-o", "out", "--max-disagreement", "7=0.1"),
    ("predict", "fast.spinney", "rows.csv", "-o", "out.csv", "--n-jobs", "0"),
    ("export", "rows.csv", "-o", "out.c"),
    ("export", "none.txt", "-o", "out.c"),
    ("strategy", "-n", "0"),
    ("accelerate", "model.txt", "-o"),
    ("--help",),
    ("predict", "--help"),
)
HEAVY = {"sklearn", "scipy", "numba", "pandas", "lightgbm", "matplotlib"}


def test_errors_and_help_come_before_anything_heavy_is_imported(work, call):
    code = f"""
import json, os, sys
os.chdir({str(work)!r})
from spinney.cli import main
for words in json.loads({json.dumps(json.dumps(WRONG))}):
    sys.argv = ["spinney", *words]
    try:
        main()
    except SystemExit as ended:
        done = {{0}} if "--help" in words else {{2}}
        assert ended.code in done, (words, ended.code)
    heavy = {HEAVY} & set(sys.modules)
    assert not heavy, (words, heavy)
"""
    done = call(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "fast.spinney", "narrow.csv", "-o", "new.csv"], "lacks columns"),
        (["prune", "model.txt", "rows.csv"], "must have labels"),
        (["prune", "model.txt", "rows.csv", "--target", "ill"], "each vote for"),
        (["anytime", "model.txt", "rows.csv"], "must have labels"),
        (
            ["anytime", "model.txt", "rows.csv", "--target", "ill", "--order", "deep"],
            "order must be one of",
        ),
        (["warm-up", "--into", "rows.csv"], "--into must be a folder"),
        (
            ["export", "fast.spinney", "-o", "new.c", "--name", "9a"],
            "must be a C identifier",
        ),
    ],
)
def test_mistakes_are_told_before_large_libraries_are_loaded(work, arguments, words):
    """Loading scikit-learn takes longer than the half a second that an error may."""
    code = "import sys; sys.modules['sklearn'] = None; from spinney.cli import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; main()", *arguments],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert words in done.stderr, done.stderr


def test_missing_or_tools_are_told_at_once(monkeypatch, work):
    monkeypatch.setattr(outputs, "find_spec", lambda name: None)
    done = in_process("prune", str(work / "model.txt"), str(work / "rows.csv"))
    assert done.exit_code == 2
    assert 'Install the extra "prune"' in " ".join(done.output.split())
