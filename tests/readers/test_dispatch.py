"""What `read_model` takes for a model, what it refuses, and what it says then."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import datasets
import spinney
from spinney import UnsupportedModelError, read_model
from spinney.persistence.store import save


@pytest.fixture(scope="module")
def iris():
    return datasets.bundled("iris")


# ---------------------------------------------------------------- objects


class Unrelated:
    """A class of nobody's library."""


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (None, "NoneType"),
        (7, "int"),
        (1.5, "float"),
        ({"learner": {}}, "dict"),
        ([1, 2], "list"),
        (b"tree\n", "bytes"),
        (len, "builtin_function_or_method"),
        (lambda row: row, "function"),
        (np.zeros((3, 3)), "numpy.ndarray"),
        (json, "module"),
        (Unrelated(), "Unrelated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_model_is_refused_by_its_type(thing, name):
    with pytest.raises(UnsupportedModelError) as caught:
        read_model(thing)
    message = str(caught.value)
    assert name in message
    assert "Hint: supported are scikit-learn's" in message


@pytest.mark.parametrize("kind", [RandomForestClassifier, Unrelated, dict])
def test_a_class_instead_of_an_instance_is_refused_with_that_reason(kind):
    with pytest.raises(UnsupportedModelError, match=r"got the class .* itself.\s*Hint"):
        read_model(kind)


def test_a_class_with_a_forged_module_name_is_refused():
    odd = type("Odd", (), {"__module__": None})
    with pytest.raises(UnsupportedModelError, match="Odd"):
        read_model(odd())


@pytest.mark.parametrize(
    "model",
    [RidgeClassifier(), KNeighborsClassifier(), StandardScaler()],
    ids=lambda model: type(model).__name__,
)
def test_other_estimators_of_scikit_learn_are_refused_by_name(model, iris):
    X, y = iris
    with pytest.raises(UnsupportedModelError, match=type(model).__name__):
        read_model(model.fit(X, y))


def test_an_estimator_of_somebody_else_is_refused_by_name(iris):
    class OwnClassifier(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

    with pytest.raises(UnsupportedModelError, match="OwnClassifier"):
        read_model(OwnClassifier().fit(*iris))


def test_a_model_that_was_not_trained_is_told_apart():
    with pytest.raises(NotFittedError):
        read_model(RandomForestClassifier())


def test_a_subclass_of_a_known_model_is_read(iris):
    class OwnForest(RandomForestClassifier):
        pass

    X, y = iris
    model = OwnForest(n_estimators=5, random_state=0).fit(X, y)
    forest = read_model(model)
    assert forest.n_trees == 5
    assert np.array_equal(forest.predict(X), model.predict(X))


def test_a_forest_is_returned_as_it_is(iris):
    forest = read_model(RandomForestClassifier(3, random_state=0).fit(*iris))
    assert read_model(forest) is forest


# ---------------------------------------------------------------- files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bin"


@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_to_nothing_is_a_missing_file(tmp_path, as_text):
    missing = tmp_path / "no" / "such.json"
    with pytest.raises(
        FileNotFoundError, match=r"no file .*such\.json.*Check the path"
    ):
        read_model(str(missing) if as_text else missing)


@pytest.mark.parametrize("text", ["tree\nversion=v4\n" * 500, '{"learner": 1}', "a\0b"])
def test_the_content_of_a_file_instead_of_its_path_is_a_missing_file(text):
    with pytest.raises(FileNotFoundError, match="Check the path") as caught:
        read_model(text)
    assert len(str(caught.value)) < 400


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="Pass the path of a model file in it"):
        read_model(tmp_path)


def test_an_empty_file_is_refused(path):
    path.touch()
    with pytest.raises(UnsupportedModelError, match=r"empty\. Save the model again"):
        read_model(path)


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"\n",
        b"Dear reader, this is no model.",
        b"trees grow\n",
        b"<html><body>404</body></html>",
        b"[1, 2, 3]",
        b"\xff\xfe\x00\x01" * 100,
        np.random.default_rng(0).bytes(10_000),
    ],
    ids=["byte", "newline", "text", "trees", "html", "list", "binary", "random"],
)
def test_what_is_no_model_file_is_refused_with_a_list_of_those_that_are(path, content):
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError) as caught:
        read_model(path)
    message = str(caught.value)
    assert "model.bin" in message
    assert "Hint: supported are" in message
    assert "pickle" not in message


@pytest.mark.parametrize(
    "content",
    [b"{}", b'{"a": 1}', b' \n{ "a": [] }', b'\xef\xbb\xbf{"a": 1}'],
    ids=["empty", "plain", "spaces", "byte order mark"],
)
def test_json_that_is_no_model_is_told_so(path, content):
    path.write_bytes(content)
    with pytest.raises(
        UnsupportedModelError, match="neither an XGBoost nor a CatBoost"
    ):
        read_model(path)


@pytest.mark.parametrize(
    "content",
    [
        b'{"learner": {"gradient_booster"',
        b'{"oblivious_trees": [1, 2',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"a": nothing}',
    ],
    ids=["XGBoost", "CatBoost", "nested", "long number", "word"],
)
def test_json_that_is_cut_or_broken_is_called_damaged(path, content):
    path.write_bytes(content)
    with pytest.raises(UnsupportedModelError, match="damaged: not valid JSON"):
        read_model(path)


def test_json_with_a_member_twice_is_refused(path):
    path.write_text('{"learner": {}, "learner": {}}')
    with pytest.raises(UnsupportedModelError, match="'learner' comes twice"):
        read_model(path)


def test_json_that_is_no_text_is_refused(path):
    path.write_bytes(b'{"learner": "\xff\xfe"}')
    with pytest.raises(UnsupportedModelError, match="is not text"):
        read_model(path)


@pytest.mark.parametrize(
    "content",
    [
        b"tree\n",
        b"tree\nversion=v4\nnum_class=1\n",
        b"tree\n\xff\xfe",
        b'{"learner": {}}',
        b'{"learner": []}',
        b'{"oblivious_trees": []}',
        b'{"trees": {}}',
        b"{L\x00\x00",
        b"{i\x07learner{}}",
        b"{\x00\x00\x00",
        b"CBM1",
        b"CBM1" + bytes(200),
    ],
)
def test_the_beginning_of_a_model_file_is_not_enough(path, content):
    path.write_bytes(content)
    if content.startswith(b"CBM1"):
        pytest.importorskip("catboost")
    with pytest.raises(UnsupportedModelError):
        read_model(path)


@pytest.mark.parametrize(
    "content", [b"\x10" + bytes(7) + b'{"a": 1}        ', bytes(8) + b"{"]
)
def test_a_forged_file_of_our_own_kind_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises((spinney.FormatError, UnsupportedModelError)):
        read_model(path)


def test_a_forest_saved_by_spinney_is_read(path, iris):
    X, y = iris
    forest = read_model(RandomForestClassifier(3, random_state=0).fit(X, y))
    save(forest, path)
    assert np.array_equal(read_model(path).predict(X), forest.predict(X))


def test_a_saved_classifier_is_told_apart_from_a_forest(path, monkeypatch):
    path.write_bytes(bytes(8) + b"{}")
    monkeypatch.setattr("spinney.persistence.store.load", lambda path: Unrelated())
    with pytest.raises(
        UnsupportedModelError, match=r"holds a Unrelated.*\n.*spinney.load"
    ):
        read_model(path)


class Explosive:
    """Running this by unpickling it would be a failure of the test."""

    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was loaded')",)


def pickled():
    yield pickle.dumps(Explosive(), protocol=4)
    yield gzip.compress(pickle.dumps(Explosive()))
    for compress in ("zlib", "bz2", "xz"):
        buffer = io.BytesIO()
        joblib.dump(Explosive(), buffer, compress=(compress, 3))
        yield buffer.getvalue()


@pytest.mark.parametrize(
    "content", list(pickled()), ids=lambda content: repr(content[:2])
)
def test_a_pickle_is_never_loaded_and_the_reason_is_given(path, content):
    path.write_bytes(content)
    with pytest.raises(
        UnsupportedModelError, match="can run any code when it is loaded"
    ):
        read_model(path)


def test_a_pipe_is_refused_and_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(UnsupportedModelError, match="not a regular file"):
        read_model(path)


def test_a_file_that_is_no_model_is_not_read_beyond_its_beginning(path, monkeypatch):
    path.write_bytes(b"x" * 100_000)
    monkeypatch.setattr(Path, "read_bytes", None)
    monkeypatch.delattr(Path, "read_text")
    with pytest.raises(UnsupportedModelError, match="not a known model file"):
        read_model(path)


# ---------------------------------------------------------------- recognition


LIBRARIES = ("lightgbm", "xgboost", "catboost", "matplotlib", "ortools")


def loaded_after(code):
    """Return those of `LIBRARIES` that a fresh interpreter has loaded after `code`."""
    report = f"\nimport sys\nprint(*[n for n in {LIBRARIES} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_recognising_and_reading_a_model_loads_no_other_library():
    code = """
import spinney
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
for thing in (None, 7, {}, object(), len):
    try:
        spinney.read_model(thing)
    except spinney.UnsupportedModelError:
        pass
X, y = load_iris(return_X_y=True)
spinney.read_model(RandomForestClassifier(n_estimators=2).fit(X, y))
"""
    assert loaded_after(code) == set()
