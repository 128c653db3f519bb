"""``spinney demo``: what it shows, what it writes, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from report.kinds import reported
from spinney.cli.app import app
from spinney.cli.demo_page import html_of_demo
from spinney.cli.demo_rooms import Shown
from spinney.report import Report

VOTES = Shown(
    name="votes stopped early",
    model="a random forest",
    used=28.0,
    in_all=200.0,
    unit="trees",
    promised=0.002,
    disagreement=0.0013,
    n_different=0,
    n_new=10_000,
    scikit_learn=28.2,
    all_trees=5.0,
    spinney=1.07,
    single_scikit_learn=5_000.0,
    single_spinney=6.0,
    report=None,
)
PRUNED = replace(
    VOTES, name="pruned forest", unit="features", promised=None, disagreement=0.03
)


@pytest.fixture
def demo(monkeypatch, tmp_path):
    """Run the demo with a given result, which takes a minute to find."""
    page = tmp_path / "page.html"
    monkeypatch.setattr(
        "spinney.cli.demo_page.html_of_demo", lambda shown, version: "<!doctype html>"
    )

    def run(*shown, options=()):
        monkeypatch.setattr("spinney.cli.demo._all_shown", lambda console: list(shown))
        done = CliRunner().invoke(app, ["demo", "--page", str(page), *options])
        assert page.read_text() == "<!doctype html>"
        return done

    return run


def test_what_was_used_differs_and_took_is_shown(demo):
    done = demo(VOTES, PRUNED)
    assert (done.exit_code, done.stderr) == (0, "")
    for words in ("votes stopped early", "28/200 trees", "0.2 %", "0.13 %", "28.2"):
        assert words in done.stdout
    for words in ("pruned forest", "28/200 features", "3.00 %", "page.html"):
        assert words in done.stdout
    assert "20,000 of 20,000 rows" in " ".join(done.stdout.split())


def test_the_page_has_one_time_of_the_model_and_not_two():
    report = Report(reported("soft votes"))
    times = {"original": "RandomForestClassifier", "batch_original": 77.0}
    report["microseconds"] = report["microseconds"] | times
    assert "own predict" in report.to_html()
    page = html_of_demo([replace(VOTES, report=report)], "0.1")
    assert "own predict" not in page
    assert "28.2" in page


def test_json_is_one_document_and_quiet_prints_nothing(demo):
    document = json.loads(demo(VOTES, options=["--json"]).stdout)
    assert document["votes stopped early"]["disagreement"] == 0.0013
    assert demo(VOTES, options=["--quiet"]).output == ""


@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_different": 3}, "3 predictions differ from scikit-learn's"),
        (
            {"disagreement": 0.004},
            "0.40 % of the predictions differ, but 0.20 % were allowed",
        ),
    ],
)
def test_a_broken_promise_ends_with_exit_code_1(demo, change, words, options):
    done = demo(replace(VOTES, **change), PRUNED, options=options)
    assert done.exit_code == 1
    assert words in " ".join(done.stderr.split())


def test_bad_luck_of_the_new_rows_is_no_broken_promise(demo):
    done = demo(replace(VOTES, disagreement=0.0021), PRUNED)
    assert done.exit_code == 0
    assert done.stderr == ""


@pytest.mark.slow
def test_the_demo_itself_keeps_its_promises(call, installed, tmp_path):
    done = call(installed, "demo", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert len(document) == 4
    assert all(one["n_different"] == 0 for one in document.values())
    assert document["votes stopped early"]["used"] < 100
    assert (tmp_path / "spinney-demo.html").read_text().startswith("<!")
