"""``spinney export``: files written, bytes told, promises kept or not."""

from __future__ import annotations

import json

import numba
import pytest
from typer.testing import CliRunner

import spinney
from spinney.cli import export
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    "model", ["model.txt", "forest.spinney", "fast.spinney", "model.joblib"]
)
def test_writes_what_export_c_writes(work, tmp_path, model):
    out = tmp_path / "model.c"
    done = run("export", work / model, "-o", out, "--trust")
    assert done.exit_code == 0, done.output
    assert "bytes of tables" in done.output
    assert "bytes on the stack" in done.output
    assert "int model_predict(" in (tmp_path / "model.h").read_text()
    if model.endswith(".spinney"):
        again = tmp_path / "again.c"
        spinney.export_c(spinney.load(work / model), again, name="model")
        assert out.read_text() == again.read_text().replace("again.h", "model.h")


def test_integer_arithmetic_with_a_report(work, tmp_path):
    out = tmp_path / "model.c"
    options = ("--arithmetic", "integer", "--rows", work / "rows.parquet")
    options += ("--max-disagreement", 0.05, "--input-type", "float32")
    done = run("export", work / "fast.spinney", "-o", out, *options, "--report")
    assert done.exit_code == 0, done.output
    assert "bits" in done.output
    done = run("export", work / "fast.spinney", "-o", out, *options, "--json")
    assert json.loads(done.stdout)["is_proven"] is True


def test_a_bound_that_is_not_proven_ends_with_one(work, tmp_path):
    out = tmp_path / "model.c"
    options = ("--arithmetic", "integer", "--rows", work / "rows.csv")
    done = run(
        "export", work / "model.txt", "-o", out, *options, "--max-disagreement", 1e-5
    )
    assert done.exit_code == 1
    assert "does not show" in out.read_text()
    assert "At least 99,999 rows" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("model.txt", "-o", "model.txt"), "read and written"),
        (("model.txt", "-o", "no/where.c"), "no directory"),
        (("model.txt", "-o", "."), "directory"),
        (("model.txt", "-o", "9.c"), "C identifier"),
        (("model.txt", "-o", "x.c", "--arithmetic", "integer"), "needs --rows"),
        (("pipeline.joblib", "-o", "x.c", "--trust"), "pipeline"),
        (("rows.csv", "-o", "x.c"), ""),
    ],
)
def test_bad_input(work, monkeypatch, arguments, says):
    monkeypatch.chdir(work)
    before = sorted(path.name for path in work.iterdir())
    done = run("export", *arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert sorted(path.name for path in work.iterdir()) == before


def test_places_where_nothing_can_be_written(work, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop.c").symlink_to("loop.c")
    for name, says in (
        ("a" * 300 + ".c", "too long"),
        ("file/model.c", "is a file"),
        ("none/model.c", "Create it first"),
        ("loop.c", "leads back to itself"),
    ):
        done = run("export", work / "forest.spinney", "-o", tmp_path / name)
        assert done.exit_code == 2
        assert says in " ".join(done.output.split())
        assert "--debug" not in done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "loop.c"]


def test_errors_name_the_options(work, tmp_path):
    out = tmp_path / "model.c"
    for options, says in (
        (("--arithmetic", "integer"), "needs --rows"),
        (("--rows", work / "rows.csv"), "--rows is for --arithmetic integer"),
        (("--max-disagreement", 0.1), "--max-disagreement is for --arithmetic integer"),
    ):
        done = run("export", work / "forest.spinney", "-o", out, *options)
        assert done.exit_code == 2
        assert says in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_suffix_is_reported_before_the_model_is_loaded(
    work, tmp_path, monkeypatch
):
    monkeypatch.setattr(export, "_loaded", None)
    done = run("export", work / "model.txt", "-o", tmp_path / "model.h")
    assert done.exit_code == 2
    assert "must have a name that ends with .c" in " ".join(done.stderr.split())
