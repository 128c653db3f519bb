"""Every script in examples runs by itself and prints what it is there to show."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import spinney

FOLDER = Path(__file__).parent.parent / "examples"
SOURCE = Path(spinney.__file__).parent.parent
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))

if not SCRIPTS:
    pytest.skip("examples are not shipped here", allow_module_level=True)


# Pictures are for the gallery; here there is no screen.
pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.fixture
def output_of(tmp_path, monkeypatch, capfd):
    """Return what runs a script in a folder of its own and returns what it prints."""
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs the extra plot")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)

    def output_of(script):
        # In this process: starting Python and importing takes as long as the example.
        runpy.run_path(str(FOLDER / script), run_name="__main__")
        printed, complaint = capfd.readouterr()
        assert complaint == ""
        assert list(tmp_path.iterdir()) == [], "left a file behind"
        pyplot.close("all")
        return printed

    return output_of


def test_a_script_runs_in_a_process_of_its_own(tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "stop_a_poll.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={
            **os.environ,
            "MPLBACKEND": "template",
            "PYTHONPATH": str(SOURCE),
            "PYTHONIOENCODING": "utf-8",
        },
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "calls saved" in done.stdout
    assert list(tmp_path.iterdir()) == []


def numbers_after(words, text):
    """Return the numbers of the line that begins with these words."""
    for line in text.splitlines():
        if line.strip().startswith(words):
            return [
                float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", line)
            ]
    msg = f"nothing begins with {words!r} in:\n{text}"
    raise AssertionError(msg)


def test_drift_is_noticed(output_of, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["watch_in_production.py"])
    said = output_of("watch_in_production.py")
    assert "On new rows of the same kind, at most 0.5 %" in said
    (day, wrong, checked, bound) = numbers_after("Alarm on day", said)
    assert 30 < day < 60
    assert wrong > bound / 100 * checked
    assert "<Monitor: ALARM" in said


def test_a_forest_is_accelerated_and_certified(output_of):
    said = output_of("accelerate_forest.py")
    assert "all trees" in said
    asked, in_all = numbers_after("trees evaluated", said)
    assert asked < 0.5 * in_all
    _, _, share, bound, confidence = numbers_after("<Certificate", said)
    assert share <= bound <= 2.0
    assert confidence == 95
    right, with_all_trees = numbers_after("accuracy", said)
    assert abs(right - with_all_trees) < 0.01
    assert "without pickle" in said


def test_a_service_answers_and_refuses_one_row_at_a_time(output_of):
    said = output_of("serve_one_row.py").splitlines()
    # Missing values and categories, by name and in order: the same row.
    assert said[0] == said[1] == "200 {'label': 1}"
    assert re.fullmatch(r"200 \{'label': 1, 'n_evaluated': \d+\}", said[2])
    assert all(line.startswith("422 {'error': ") for line in said[3:6])
    assert "got 'much'" in said[4]
    assert "µs" in said[6]


def test_a_poll_saves_calls_within_its_promise(output_of):
    said = output_of("stop_a_poll.py")
    saved, in_all, _ = numbers_after("calls saved", said)
    assert saved > 0.6 * in_all
    promised = float(re.search(r"promised:.*\n\s+([\d.]+)%", said)[1])
    measured = float(re.search(r"measured:.*\n\s+([\d.]+)%", said)[1])
    assert promised <= 1.0
    assert measured < 1.6  # 3,000 questions: three standard deviations above


def test_a_filter_rejects_most_and_ranks_the_rest_exactly(output_of):
    said = output_of("filter_candidates.py")
    assert "the same as without a cascade: True" in said
    assert numbers_after("decided differently", said)[0] < 0.3
    assert int(re.search(r"(\d+) of 200 trees evaluated per item", said)[1]) < 100


def test_answers_come_by_the_deadline_and_get_better(output_of):
    said = output_of("predict_by_deadline.py")
    curve = [
        (int(k), float(ours), float(random))
        for k, ours, random in re.findall(
            r"(\d+) steps: ([\d.]+)   in random order: ([\d.]+)", said
        )
    ]
    assert curve[0][1] < curve[2][1] < curve[-1][1]
    assert curve[2][1] > curve[2][2]
    assert curve[-1][1] == curve[-1][2]
    assert "predictions are those of the forest itself" in said


def test_pruning_lays_out_trade_offs_and_lowers_the_cost(output_of):
    pytest.importorskip("ortools", reason="pruning needs the extra prune")
    said = output_of("prune_lab_tests.py")
    assert numbers_after("", said)[0] > 5  # forests on the frontier
    cost, in_all = numbers_after("cost per patient", said)
    assert cost < 0.8 * in_all
    right, before = numbers_after("accuracy on test rows", said)
    assert right > before - 0.05
    assert "values fetched" in said


def test_categories_are_read_as_the_library_reads_them(output_of):
    pytest.importorskip("lightgbm", reason="needs the extra lightgbm")
    said = output_of("lightgbm_categories.py").splitlines()
    assert said[0].startswith("(('Bergen', 'Oslo', 'Tromsø'), ")
    assert said[1] == said[2]  # of a city that the model has not seen
    assert numbers_after("spinney", "\n".join(said))


def test_each_class_keeps_its_bound(output_of):
    said = output_of("bounds_per_class.py")
    assert "at most 0.5 % of class 0" in said
    for label, bound in ((0, 0.5), (1, 2.0)):
        _, wrong, rows, *_ = numbers_after(f"{label} <Certificate", said)
        assert 100 * wrong <= 2 * bound * rows  # two or three standard deviations above
    before, after = numbers_after("predicted fraud", said)
    assert abs(after - before) < 1


def test_a_forest_goes_into_a_page(output_of):
    said = output_of("forest_in_the_browser.py")
    if "nothing was written" in said:
        pytest.skip("clang or lld is not installed")
    assert 10_000 < numbers_after("WebAssembly", said)[0] < 100_000


@pytest.mark.parametrize("script", ["serve_http.py", "mlserver_runtime.py"])
def test_servers_are_tested_as_processes(script):
    tests = Path(__file__).parent / "integrations" / "test_servers.py"
    assert script.removesuffix(".py") in tests.read_text(encoding="utf-8")


def test_every_script_is_tested_and_listed():
    here = Path(__file__).read_text(encoding="utf-8")
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        assert f'"{script}"' in here
        assert f"[{script}]({script})" in listed
