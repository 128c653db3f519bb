"""Commands that take a model and a table: what they read, print, write and refuse."""

from __future__ import annotations

import inspect
import json

import joblib
import numba
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import spinney
from spinney.cli.app import app
from spinney.cli.tables import Table

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the rooms have tests of their own"
)

FRAME, LABELS = load_breast_cancer(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, and the same rows in every kind of table."""
    folder = tmp_path_factory.mktemp("tables")
    model = RandomForestClassifier(10, max_depth=4, random_state=0)
    model.fit(FRAME[:300], LABELS[:300])
    joblib.dump(model, folder / "model.joblib")
    table = FRAME[300:].assign(diagnosis=LABELS[300:])
    table.to_csv(folder / "rows.csv", index=False)
    table.to_csv(folder / "rows.csv.gz", index=False)
    table.to_parquet(folder / "rows.parquet", index=False)
    table.reset_index(drop=True).to_feather(folder / "rows.feather")
    shuffled = table[table.columns[::-1]]
    shuffled.to_csv(folder / "shuffled.csv", index=False)
    np.savez(folder / "rows.npz", X=FRAME[300:].to_numpy(), y=LABELS[300:].to_numpy())
    return folder


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done


NAMES = tuple(FRAME.columns)


@pytest.mark.parametrize(
    "name",
    ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.feather", "shuffled.csv"],
)
def test_every_kind_of_table_gives_the_same_rows(folder, name):
    part = Table(folder / name, "diagnosis", NAMES, 30).whole()
    np.testing.assert_array_equal(part.rows, FRAME[300:].to_numpy())
    np.testing.assert_array_equal(part.labels, LABELS[300:])


def test_an_npz_file_has_rows_and_labels(folder):
    part = Table(folder / "rows.npz", None, NAMES, 30).whole()
    np.testing.assert_array_equal(part.rows, FRAME[300:].to_numpy())
    np.testing.assert_array_equal(part.labels, LABELS[300:])


def test_missing_numbers_become_nan(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,\nNA,2.5\n")
    rows = Table(path, None, None, 2).whole().rows
    np.testing.assert_array_equal(rows, [[1, np.nan], [np.nan, 2.5]])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.csv", None, "There is no file"),
        ("empty.csv", b"", "is empty"),
        ("head.csv", b"a,b\n", "has no rows"),
        ("text.csv", b"a,b\n1,two\n", "Column 'b' must hold numbers"),
        (
            "wide.csv",
            b"a,b,c\n1,2,3\n",
            "has 3 columns, but the model was trained on 2",
        ),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read"),
        ("rows.parquet", b"no parquet at all", "cannot be read"),
        ("rows.npz", b"PK no archive", "is not an NPZ file"),
        ("rows.xlsx", b"x", "is not a supported kind of table"),
    ],
)
def test_what_is_no_table_of_numbers_is_named(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((OSError, ValueError), match=words):
        Table(path, None, None, 2).whole()


def test_prune_prints_the_frontier_and_writes_what_was_chosen(folder, tmp_path):
    out, plot = tmp_path / "pruned.spinney", tmp_path / "frontier.svg"
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"mean texture": 3.0}))
    arguments = ("prune", folder / "model.joblib", folder / "rows.csv", "--trust")
    arguments += ("--target", "diagnosis", "--costs", costs, "--budget", "4")
    done = run(*arguments, "-o", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "Optimal trade-offs" in done.output
    assert "Chosen: mean feature cost" in done.output
    pruned = spinney.load(out)
    assert pruned.feature_cost(FRAME[300:].to_numpy()).mean() <= 4
    assert plot.read_text().startswith("<?xml")
    document = json.loads(run(*arguments, "--json").stdout)
    assert document["chosen"]["cost"] <= 4
    assert len(document["frontier"]["cost"]) > 3


def test_prune_without_a_choice_shows_the_frontier_only(folder, tmp_path):
    arguments = ("prune", folder / "model.joblib", folder / "rows.npz", "--trust")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "Chosen" not in done.output
    refused = run(*arguments, "-o", tmp_path / "x.spinney")
    assert refused.exit_code == 2
    assert "--budget or --trade-off" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_anytime_compares_orders_and_writes_the_best(folder, tmp_path):
    out, plot = tmp_path / "any.spinney", tmp_path / "curves.png"
    arguments = ("anytime", folder / "model.joblib", folder / "rows.parquet", "--trust")
    arguments += ("--target", "diagnosis", "--order", "forward_squirrel")
    done = run(*arguments, "--order", "random", "-o", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    for words in ("NMA", "forward_squirrel", "random", "Written to"):
        assert words in done.output
    again = spinney.load(out)
    rows = FRAME.to_numpy()
    assert (again.predict(rows, max_steps=3) == again.predict(rows)).mean() > 0.5
    assert plot.read_bytes().startswith(b"\x89PNG")
    document = json.loads(run(*arguments, "--json").stdout)
    assert len(document["forward_squirrel"]["accuracy"]) == (
        1 + len(document["forward_squirrel"]["order"])
    )


@pytest.mark.parametrize("command", ["anytime", "prune"])
def test_the_bar_of_the_command_is_the_only_one(folder, monkeypatch, command):
    class OfAFit:
        def __init__(self, what):
            pytest.fail(f"fit draws a bar of its own: {what}")

    # As in a terminal, where a fit shows what it does.
    # Click's in older versions of Typer, its own in newer ones.
    runner = inspect.getmodule(CliRunner.isolation)
    monkeypatch.setattr(runner._NamedTextIOWrapper, "isatty", lambda _: True)
    monkeypatch.setattr("spinney.base.progress.PatientBar", OfAFit)
    arguments = (command, folder / "model.joblib", folder / "rows.parquet", "--trust")
    done = run(*arguments, "--target", "diagnosis", "--quiet")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", ["prune", "anytime"])
@pytest.mark.parametrize(
    ("model", "rows", "options", "words"),
    [
        ("model.joblib", "rows.csv", ("--target", "diagnosis"), "add --trust"),
        ("model.joblib", "rows.csv", ("--trust",), "labels"),
        ("model.joblib", "rows.csv", ("--trust", "--target", "x"), "no column 'x'"),
        ("model.joblib", "none.csv", ("--trust",), "There is no file"),
        ("none.joblib", "rows.csv", ("--trust",), "There is no file"),
        ("rows.csv", "rows.csv", ("--target", "diagnosis"), "not a known model file"),
        (".", "rows.csv", (), "is a directory"),
        ("model.joblib", ".", ("--trust",), "is a directory"),
    ],
)
def test_bad_input_ends_with_exit_code_2_and_a_plain_message(
    folder, command, model, rows, options, words
):
    done = run(command, folder / model, folder / rows, *options)
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize("trust", [(), ("--trust",)])
def test_a_skops_file_is_read_without_running_code(folder, tmp_path, trust):
    io = pytest.importorskip("skops.io")
    model = joblib.load(folder / "model.joblib")
    io.dump(model, tmp_path / "model.skops")
    arguments = ("predict", tmp_path / "model.skops", folder / "rows.csv", *trust)
    arguments += ("--target", "diagnosis", "-o", tmp_path / "answers.npz")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "answers.npz") as answers:
        expected = model.predict(FRAME[300:])
        np.testing.assert_array_equal(answers["label"], expected)
    (tmp_path / "model.skops").write_bytes(b"PK no archive")
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "cannot be loaded" in refused.output


class Strange(RandomForestClassifier):
    """A type that skops does not know."""


@pytest.mark.parametrize(
    "model",
    [make_pipeline(StandardScaler(), RandomForestClassifier(2)), Strange(2)],
    ids=["pipeline", "strange type"],
)
def test_what_skops_does_not_vouch_for_takes_trust(folder, tmp_path, model):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "model.skops"
    io.dump(model.fit([[0.0], [1.0]], [0, 1]), path)
    if not io.get_untrusted_types(file=path):
        pytest.skip("this version of skops vouches for all of it")
    refused = run("inspect", path)
    assert refused.exit_code == 2
    assert "add --trust" in refused.output
    done = run("inspect", path, "--trust")
    assert done.exit_code == 0, done.output
