"""The compiled model as a Python object."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import spinney
from export.native import need
from report.kinds import KINDS, fitted
from spinney.export import compiler
from strategies import random_forest, random_rows


@pytest.mark.parametrize("kind", ["soft votes", "optimal of several", "anytime"])
def test_answers_are_those_of_the_classifier(kind):
    need("gcc")
    classifier, _, X, _ = fitted(kind)
    fast = spinney.compile(classifier)
    assert np.array_equal(fast.predict(X), classifier.predict(X))
    assert np.array_equal(fast.classes_, classifier.classes_)
    row = np.ascontiguousarray(X[3], dtype=np.float32)
    assert fast(row) == classifier.predict(X[3:4])[0]
    assert fast(X[3]) == fast(row[::-1][::-1]) == fast(row)
    proba = classifier.forest_.predict_proba(X)
    assert np.allclose(fast.predict_proba(X), proba)
    if hasattr(classifier, "predict_counted"):
        counts = classifier.predict_counted(X)[1]
        assert np.array_equal(fast.predict_counted(X)[1], counts)
    assert kind in KINDS


def test_regressors_and_float64_rows():
    need("gcc")
    forest = random_forest(1, task="sum numbers", input_dtype="float64")
    shares: list[float] = []
    spinney.compile(forest, verbose=shares.append)
    assert shares == [0.1, 1.0]
    X = random_rows(forest, 50)
    fast = spinney.compile(forest)
    assert np.array_equal(fast.predict(X), forest.predict(X))
    with np.errstate(over="ignore"):
        single = X.astype(np.float32)
    assert np.array_equal(fast.predict(single), forest.predict(single))
    one = random_forest(1, task="mean numbers", n_outputs=1)
    assert spinney.compile(one)(single[0]) == one.predict(single[:1])[0]
    for method in ("predict_proba", "predict_counted"):
        with pytest.raises(TypeError, match="regressor"):
            getattr(fast, method)(X)


def test_pickles_and_threads():
    need("gcc")
    classifier, _, X, _ = fitted("soft votes")
    fast = spinney.compile(classifier)
    again = pickle.loads(pickle.dumps(fast))
    assert np.array_equal(again.predict(X), fast.predict(X))
    assert "CompiledModel" in repr(again)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    with ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(fast, rows))
    assert np.array_equal(labels, fast.predict(X))


def test_numba_is_not_needed_to_predict(tmp_path):
    need("gcc")
    classifier, _, X, _ = fitted("hard votes")
    spinney.save(classifier, tmp_path / "m.spinney")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import numpy, sys, spinney\n"
        f"X = numpy.load({str(tmp_path / 'X.npy')!r})\n"
        f"fast = spinney.compile(spinney.load({str(tmp_path / 'm.spinney')!r}))\n"
        "for name in [n for n in sys.modules if n.split('.')[0] == 'numba']:\n"
        "    sys.modules[name] = None\n"
        "print(len(fast.predict(X)), fast(X[0].astype('float32')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(len(X))


def test_wrong_rows_are_refused():
    need("gcc")
    fast = spinney.compile(random_forest(0))
    with pytest.raises(ValueError, match="one row of 4 numbers"):
        fast(np.zeros(5))
    with pytest.raises(ValueError, match="trained on 4"):
        fast.predict(np.zeros((3, 5)))
    assert len(fast.predict(np.zeros((0, 4)))) == 0


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no-such-compiler"):
        spinney.compile(random_forest(0))
    monkeypatch.delenv("CC")
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="needs a C compiler"):
        spinney.compile(random_forest(0))


def test_a_compiler_that_fails_is_quoted(monkeypatch):
    monkeypatch.setenv("CC", "false")
    need("false")
    with pytest.raises(RuntimeError, match="exit code 1"):
        spinney.compile(random_forest(0))


def test_what_does_not_load_here_is_explained(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", need("true"))  # compiles nothing, and does not complain
    with pytest.raises(RuntimeError, match="does not load here"):
        spinney.compile(random_forest(0))
    monkeypatch.setenv("CC", need("gcc"))
    monkeypatch.setattr(compiler.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="TMPDIR"):
        spinney.compile(random_forest(0))
    odd = tmp_path / "sp ace ä'"
    odd.mkdir()
    monkeypatch.setattr(compiler.tempfile, "tempdir", str(odd))
    forest = random_forest(0)
    rows = random_rows(forest, 20, dtype=np.float32)
    assert np.array_equal(spinney.compile(forest).predict(rows), forest.predict(rows))
    assert list(odd.iterdir()) == []


def test_without_the_headers_of_python(monkeypatch):
    need("gcc")
    monkeypatch.setattr(compiler.sysconfig, "get_paths", lambda: {"include": "/none"})
    forest = random_forest(0)
    rows = random_rows(forest, 20, dtype=np.float32)
    fast = spinney.compile(forest)
    assert np.array_equal(fast.predict(rows), forest.predict(rows))
    assert [fast(row) for row in rows] == list(forest.predict(rows))
