"""What travels to workers, and what they make of it."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

import spinney
from spinney.integrations import answering, portable
from spinney.integrations.portable import PortableModel
from spinney.persistence.store import from_bytes, to_bytes


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    monkeypatch.setattr(portable, "_loaded", type(portable._loaded)())


def arrived(model, monkeypatch):
    """Return what comes out of a pickle in a process that has loaded nothing."""
    there = pickle.loads(pickle.dumps(model))
    monkeypatch.setattr(portable, "_loaded", type(portable._loaded)())
    return there


def test_bytes_are_those_of_the_file(fast, rows, tmp_path):
    spinney.save(fast, tmp_path / "model.spinney")
    content = to_bytes(fast)
    assert content == (tmp_path / "model.spinney").read_bytes()
    again = from_bytes(content)
    assert (again.predict(rows) == fast.predict(rows)).all()


def test_damaged_bytes_are_refused(fast):
    content = bytearray(to_bytes(fast))
    content[-1] ^= 1
    with pytest.raises(spinney.FormatError, match="the model is damaged"):
        from_bytes(bytes(content))


def test_an_object_travels_as_its_file(fast, rows, monkeypatch):
    model = PortableModel(fast)
    assert len(pickle.dumps(model)) < len(to_bytes(fast)) + 1000
    there = arrived(model, monkeypatch)
    assert (there.model.predict(rows) == fast.predict(rows)).all()


def test_a_path_travels_as_a_path(fast, rows, tmp_path, monkeypatch):
    path = tmp_path / "model.spinney"
    spinney.save(fast, path)
    model = PortableModel(path)
    assert len(pickle.dumps(model)) < 1000
    assert model.digest == PortableModel(fast).digest
    there = arrived(model, monkeypatch)
    assert (there.model.predict(rows) == fast.predict(rows)).all()


def test_a_worker_loads_a_model_once(fast, monkeypatch):
    there = arrived(PortableModel(fast), monkeypatch)
    again = pickle.loads(pickle.dumps(there))
    assert there.model is again.model


def test_few_models_stay_loaded(trained, monkeypatch):
    monkeypatch.setattr(portable, "KEPT_MODELS", 2)
    forest = spinney.read_model(trained)
    models = [PortableModel(forest.take(range(n))) for n in (1, 2, 3)]
    assert len(portable._loaded) == 2
    assert [model.model.n_trees for model in models] == [1, 2, 3]


def test_a_file_that_was_replaced_is_refused(fast, trained, tmp_path, monkeypatch):
    path = tmp_path / "model.spinney"
    spinney.save(fast, path)
    there = arrived(PortableModel(path), monkeypatch)
    spinney.save(spinney.read_model(trained), path)
    with pytest.raises(spinney.InvalidArgumentError, match="Build the job again"):
        _ = there.model


def test_a_worker_that_cannot_read_the_file_says_so(fast, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    spinney.save(fast, folder / "model.spinney")
    there = arrived(PortableModel(folder / "model.spinney"), monkeypatch)
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError, match="where all workers can read it"):
        _ = there.model


def test_a_trained_model_and_its_file_are_read(trained, rows, tmp_path):
    assert (PortableModel(trained).model.predict(rows) == trained.predict(rows)).all()
    lightgbm = pytest.importorskip("lightgbm")
    y = trained.predict(rows) == "yes"
    booster = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(rows, y)
    booster.booster_.save_model(tmp_path / "model.txt")
    there = PortableModel(tmp_path / "model.txt").model
    assert (there.predict(rows) == booster.predict(rows)).all()


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    with pytest.raises(spinney.UnsupportedModelError, match="not a known model file"):
        PortableModel(tmp_path / "notes.txt")
    with pytest.raises(spinney.UnsupportedModelError, match="cannot read"):
        PortableModel(object())
    with pytest.raises(FileNotFoundError, match="There is no file"):
        PortableModel(tmp_path / "nothing.spinney")


def test_parts_without_rows_have_the_types_of_the_others(fast, trained, rows):
    nothing = rows[:0]
    for model in (PortableModel(fast), PortableModel(trained)):
        labels, n_evaluated = answering.counted(model, rows)
        none, no_trees = answering.counted(model, nothing)
        assert (none.shape, none.dtype) == ((0,), labels.dtype)
        assert (no_trees.shape, no_trees.dtype) == ((0,), n_evaluated.dtype)
        assert answering.labels(model, nothing).dtype == labels.dtype
        assert answering.disagreements(model, nothing).sum() == 0
    assert answering.probabilities(PortableModel(trained), nothing).shape == (0, 2)


def test_disagreements_are_counted_by_class(fast, trained, rows):
    full, quick = trained.predict(rows), fast.predict(rows)
    expected = [
        [(full == label).sum(), ((full == label) & (quick != full)).sum()]
        for label in fast.classes_
    ]
    counts = answering.disagreements(PortableModel(fast), rows)
    assert counts.tolist() == expected
    assert counts[:, 1].sum() > 0


def test_columns_are_taken_by_name_and_in_order(named):
    assert answering.columns_to_read(named, ["days", "id", "dose", "age"]) == [
        "age",
        "dose",
        "days",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["age", "days", "weight"], "lack 1 of the 3 columns .* 'dose'"),
        (["age", "dose", "days", "age"], "called 'age'"),
        ([], "lack 3 of the 3"),
    ],
)
def test_wrong_columns_are_named(named, given, words):
    with pytest.raises(spinney.InvalidArgumentError, match=words):
        answering.columns_to_read(named, given)


def test_columns_without_names_are_counted(fast):
    assert answering.columns_to_read(fast, list("abcdef")) == list("abcdef")
    with pytest.raises(spinney.InvalidArgumentError, match="5 columns"):
        answering.columns_to_read(fast, list("abcde"))


def test_a_key_does_not_pass_for_a_missing_column(rows):
    """LightGBM takes columns by position, whatever their names: in memory only."""
    import lightgbm
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1)
    fast = spinney.accelerate(model.fit(frame, rows[:, 0] > 0))
    assert answering.columns_to_read(fast, list("uvwxyz")) == list("uvwxyz")
    with pytest.raises(spinney.InvalidArgumentError, match=r"lack 1 of the 6 .* 'c'"):
        answering.columns_to_read(fast, ["a", "b", "d", "e", "f", "id"])


def test_regressors_answer_with_numbers(rows):
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(5, random_state=0).fit(
        np.nan_to_num(rows), rows[:, 0]
    )
    there = PortableModel(model)
    assert answering.labels(there, rows[:0]).dtype == np.float64
    assert (answering.labels(there, rows) == model.predict(rows)).all()
    with pytest.raises(spinney.InvalidArgumentError, match="no probabilities"):
        answering.check_can(there.model, "predict_proba")
