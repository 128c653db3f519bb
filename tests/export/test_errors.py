"""What cannot be exported is refused, and nothing is left half-written."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spinney
from report.kinds import fitted, rows
from spinney.export import program
from strategies import random_forest

FOREST = random_forest(0, n_trees=3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"arithmetic": "float"}, "exact, integer"),
        ({"arithmetic": "integer"}, "needs rows"),
        ({"arithmetic": "integer", "X": np.zeros((0, 4))}, "no rows"),
        ({"arithmetic": "integer", "X": np.zeros((9, 5))}, "5 features"),
        ({"X": np.zeros((9, 4))}, "arithmetic='integer'"),
        ({"confidence": 0.9}, "arithmetic='integer'"),
        (
            {"arithmetic": "integer", "X": np.zeros((9, 4)), "confidence": 95},
            "confidence must be",
        ),
        (
            {"arithmetic": "integer", "X": np.zeros((9, 4)), "max_disagreement": 2},
            "max_disagreement must be",
        ),
        ({"name": "no-name"}, "C identifier"),
        ({"name": "1st"}, "C identifier"),
        ({"name": ""}, "C identifier"),
        ({"name": "ü"}, "C identifier"),
        ({"name": 3}, "C identifier"),
        ({"layout": "small"}, "fast, packed"),
        ({"input_type": "uint8"}, "input_type must be"),
        ({"input_type": "float64"}, "rounds rows to float32"),
        ({"input_scale": 0.5}, "integer rows"),
        ({"input_type": "int8", "input_scale": 0.0}, "above 0"),
        ({"input_type": "int8", "input_scale": [1, 2]}, "each of the 4"),
        ({"input_type": "int8", "input_scale": "much"}, "above 0"),
    ],
)
def test_wrong_arguments(options, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        spinney.export_c(FOREST, tmp_path / "model.c", **options)
    assert list(tmp_path.iterdir()) == []


def test_wrong_paths(tmp_path):
    with pytest.raises(IsADirectoryError, match="directory"):
        spinney.export_c(FOREST, tmp_path)
    with pytest.raises(ValueError, match=r"end with \.c"):
        spinney.export_c(FOREST, tmp_path / "model.h")
    with pytest.raises(FileNotFoundError, match="Create it first"):
        spinney.export_c(FOREST, tmp_path / "none" / "model.c")
    with pytest.raises(ValueError, match="C identifier"):
        spinney.export_c(FOREST, tmp_path / "my-model.c")
    with pytest.raises(ValueError, match="str or a pathlib"):
        spinney.export_c(FOREST, 3)
    (tmp_path / "model.h").mkdir()
    with pytest.raises(IsADirectoryError, match="header"):
        spinney.export_c(FOREST, tmp_path / "model.c")
    assert [path.name for path in tmp_path.iterdir()] == ["model.h"]


@pytest.mark.parametrize("stem", ["a" * 300, "x/" * 3000 + "a"])
def test_paths_too_long_for_the_system(stem, tmp_path):
    with pytest.raises(
        OSError, match=r"\.\.\..* is too long .* Pass a shorter"
    ) as error:
        spinney.export_c(FOREST, tmp_path / f"{stem}.c", name="model")
    assert error.value.errno == errno.ENAMETOOLONG
    assert len(str(error.value)) < 200
    assert list(tmp_path.iterdir()) == []


def test_places_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file"):
        spinney.export_c(FOREST, tmp_path / "file" / "model.c")
    (tmp_path / "model.c").symlink_to("model.c")
    with pytest.raises(OSError, match="leads back to itself"):
        spinney.export_c(FOREST, tmp_path / "model.c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "model.c"]


def test_a_full_disk_leaves_the_old_files(tmp_path, monkeypatch):
    for ending in "ch":
        (tmp_path / f"model.{ending}").write_text("old")
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:  # the header
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match=r"model\.h' could not be written: No space"):
        spinney.export_c(FOREST, tmp_path / "model.c")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "model.c": "old",
        "model.h": "old",
    }


@pytest.mark.parametrize("stem", ["\u00fc", 'a"b', "a\\b", "a??!b", "a\nb"])
def test_file_names_that_cannot_be_included(stem, tmp_path):
    with pytest.raises(ValueError, match="by its name"):
        spinney.export_c(FOREST, tmp_path / f"{stem}.c", name="model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stem", ["P_", "P_model", "a-P_b", "while"])
def test_names_of_files_and_of_templates_are_kept_apart(stem, tmp_path):
    name = None if stem.isidentifier() else "model"
    spinney.export_c(FOREST, tmp_path / f"{stem}.c", name=name)
    assert f'#include "{stem}.h"' in (tmp_path / f"{stem}.c").read_text()
    assert f"{name or stem}_predict(" in (tmp_path / f"{stem}.h").read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_no_file_without_its_header(tmp_path):
    (tmp_path / "model.c").write_text("old")
    os.mkfifo(tmp_path / "model.h")
    with pytest.raises(OSError, match=r"model\.h"):
        spinney.export_c(FOREST, tmp_path / "model.c")
    assert (tmp_path / "model.c").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.c", "model.h"]


def test_models_that_cannot_be_exported(tmp_path, monkeypatch):
    (X, y), _, _ = rows("breast_cancer")
    path = tmp_path / "model.c"
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match=r"spinney\.read_model\(model\)"):
        spinney.export_c(model, path)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(X, y)
    wrapped = spinney.AllTreesClassifier(FrozenEstimator(pipeline)).fit(X)
    with pytest.raises(TypeError, match="pipeline"):
        spinney.export_c(wrapped, path)
    with pytest.raises(TypeError, match="not trees"):
        spinney.export_c(fitted("called voters")[0], path)
    unfitted = spinney.AllTreesClassifier(FrozenEstimator(model))
    with pytest.raises(ValueError, match="not fitted"):
        spinney.export_c(unfitted, path)
    monkeypatch.setattr(program, "MAX_OUTPUTS", 2)
    with pytest.raises(TypeError, match="3 outputs"):
        spinney.export_c(random_forest(0, n_outputs=3), path)
    dates = FOREST.replace(classes=np.array(["2024-01-01"] * 3, dtype="M8[D]"))
    monkeypatch.undo()
    with pytest.raises(TypeError, match="numbers or strings"):
        spinney.export_c(dates, path)
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_integer_form(tmp_path):
    number = random_forest(0, task="sum score").replace(classes=None, link="identity")
    with pytest.raises(TypeError, match="for classifiers"):
        spinney.export_c(
            number, tmp_path / "m.c", arithmetic="integer", X=np.zeros((5, 4))
        )
    classifier, _, X, _ = fitted("fan")
    with pytest.raises(TypeError, match="bins"):
        spinney.export_c(classifier, tmp_path / "m.c", arithmetic="integer", X=X)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "labels",
    [
        ['a"b', "c\\d", "??/\n"],
        ["ä", "*/", "%s"],
        ["P_predict", "model_LABELS", "while"],
        ["$name", "", "\t1"],
    ],
)
def test_labels_are_written_as_they_are(labels, tmp_path):
    import ctypes
    import subprocess

    from export.native import need

    forest = FOREST.replace(classes=np.array(labels), source="a */ comment")
    spinney.export_c(forest, tmp_path / "model.c")
    subprocess.run(
        [need("gcc"), "-shared", "-fPIC", "-o", "model.so", "model.c"],
        cwd=tmp_path,
        check=True,
    )
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    found = (ctypes.c_char_p * 3).in_dll(library, "model_LABELS")
    assert [text.decode() for text in found] == labels


@pytest.mark.parametrize(
    "labels",
    [
        ["a\0b", "c", "d"],
        ["\ud800", "c", "d"],
        [0.5, np.inf, 1.0],
        [0.5, 1.0, np.nan],
        np.array([2**63, 1, 0], dtype=np.uint64),
    ],
)
def test_labels_that_c_cannot_hold(labels, tmp_path):
    forest = FOREST.replace(classes=np.array(labels))
    with pytest.raises(TypeError, match=r"[Cc]lass label"):
        spinney.export_c(forest, tmp_path / "model.c")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "model.c"
    spinney.export_c(FOREST, path)
    first = path.read_text()
    with pytest.raises(ValueError, match="needs rows"):
        spinney.export_c(FOREST, path, arithmetic="integer")
    assert path.read_text() == first


def test_bounds_of_classes_are_not_turned_into_one(tmp_path):
    _, (X_fit, y_fit), (X, _) = rows("breast_cancer")
    model, bounds = fitted("thresholds")[1], dict.fromkeys([0, 1], 0.2)
    fast = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=bounds, random_state=0
    ).fit(X_fit, y_fit)
    assert spinney.export_c(fast, tmp_path / "m.c").max_disagreement is None
    settings = {"arithmetic": "integer", "X": X}
    with pytest.raises(ValueError, match="single classes"):
        spinney.export_c(fast, tmp_path / "n.c", **settings)
    spinney.export_c(fast, tmp_path / "n.c", max_disagreement=0.2, **settings)
