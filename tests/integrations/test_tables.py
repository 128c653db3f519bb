"""Batches of columns, and batches of Ray, without any engine."""

from __future__ import annotations

import numpy as np
import pytest

import spinney
from spinney.integrations import tables
from spinney.integrations.portable import PortableModel
from spinney.integrations.ray import Predictor

pd = pytest.importorskip("pandas")


@pytest.fixture
def frame(rows):
    return pd.DataFrame(rows[:, :3], columns=["dose", "days", "age"])


def test_a_model_without_names_is_given_numbers(fast, trained, rows):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    there = tables.rows_of_frame(fast, frame)
    assert type(there) is np.ndarray
    assert there.dtype == np.float32
    mixed = frame.astype({"a": object}).assign(b=pd.array(frame["b"], dtype="Float64"))
    assert (fast.predict(tables.rows_of_frame(fast, mixed)) == fast.predict(rows)).all()


def test_missing_values_of_pandas_own_types_are_nan_to_a_model_without_names(fast):
    frame = pd.DataFrame(
        {
            "a": pd.array([0.5, None, 1.5], dtype="Float64"),
            "b": pd.array([1, 2, None], dtype="Int64"),
            "c": pd.array([True, None, False], dtype="boolean"),
        }
    )
    there = tables.rows_of_frame(fast, frame)
    assert there.dtype == np.float64
    expected = [[0.5, 1.0, 1.0], [np.nan, 2.0, np.nan], [1.5, np.nan, 0.0]]
    np.testing.assert_array_equal(there, expected)


def test_a_text_among_numbers_is_told_with_its_row(fast, rows):
    frame = pd.DataFrame(rows[:3].astype(object), columns=list("abcdef"))
    frame.loc[1, "c"] = "much"
    with pytest.raises(TypeError, match=r"got 'much' .* in row 1, column 2"):
        tables.rows_of_frame(fast, frame)


def test_outputs_are_those_that_the_model_has(fast, trained):
    forest = spinney.read_model(trained)
    assert tables.chosen_outputs(forest, None) == tables.OUTPUTS
    assert tables.chosen_outputs(fast, None)[:2] == ("label", "n_evaluated")
    assert tables.chosen_outputs(fast, "label") == ("label",)


@pytest.mark.parametrize("outputs", [(), ("labels",), ("label", "label"), 3])
def test_outputs_that_do_not_exist_are_refused(fast, outputs):
    with pytest.raises(spinney.InvalidArgumentError, match="outputs must be some of"):
        tables.chosen_outputs(fast, outputs)


def test_a_batch_of_columns_is_answered_by_name(named, frame):
    own = named.predict_counted(frame[["age", "dose", "days"]])
    predictor = Predictor(named, outputs=("label", "n_evaluated"), prefix="is_")
    for batch in (
        {"id": np.arange(len(frame)), **{name: frame[name] for name in frame}},
        frame.assign(id=1),
    ):
        scored = predictor(batch)
        assert set(scored) == {
            "id",
            "dose",
            "days",
            "age",
            "is_label",
            "is_n_evaluated",
        }
        assert (np.asarray(scored["is_label"]) == own[0]).all()
        assert (np.asarray(scored["is_n_evaluated"]) == own[1]).all()


def test_a_batch_that_is_one_array(trained, rows):
    scored = Predictor(trained)({"data": rows})
    assert (scored["label"] == trained.predict(rows)).all()
    assert (scored["n_evaluated"] == 40).all()
    assert scored["probability"].shape == (len(rows), 2)


def test_a_batch_of_unnamed_columns_keeps_its_type(fast, rows):
    predictor = Predictor(fast, outputs="label")
    scored = predictor({f"f{k}": rows[:, k] for k in range(6)})
    assert (scored["label"] == fast.predict(rows)).all()


def test_a_batch_without_rows(fast, named, frame):
    assert len(Predictor(fast)({"data": np.empty((0, 6))})["label"]) == 0
    assert len(Predictor(named)(frame[:0])) == 0


def test_decimals_and_missing_values_in_a_batch_are_numbers(fast, rows):
    from decimal import Decimal

    some = rows[:200].astype(float)
    some[::3, 1] = np.nan
    some[:, 4] = np.nan
    batch = {f"f{k}": some[:, k] for k in range(6)}
    batch["f1"] = np.array(
        [None if x != x else Decimal(repr(float(x))) for x in some[:, 1]], dtype=object
    )
    batch["f4"] = np.full(200, None, dtype=object)  # nothing is known of the column
    predictor = Predictor(fast, outputs="label")
    for given in (batch, pd.DataFrame(batch)):
        assert (np.asarray(predictor(given)["label"]) == fast.predict(some)).all()


def test_a_batch_with_its_columns_in_another_order(fast, rows):
    names = [f"f{k}" for k in range(6)]
    predictor = Predictor(fast, outputs="label", columns=names)
    batch = {name: rows[:, k] for k, name in reversed(list(enumerate(names)))}
    for given in ({"id": rows[:, 0], **batch}, pd.DataFrame(batch)):
        scored = predictor(given)
        assert (np.asarray(scored["label"]) == fast.predict(rows)).all()
    del batch["f2"]
    with pytest.raises(spinney.InvalidArgumentError, match=r"lacks .*\['f2'\]"):
        predictor(batch)


@pytest.mark.parametrize("prefix", [None, 3, b"our_"])
def test_a_prefix_that_is_no_string_is_refused(fast, prefix):
    with pytest.raises(spinney.InvalidArgumentError, match="prefix must be a string"):
        Predictor(fast, prefix=prefix)


def test_columns_that_would_be_overwritten_are_refused(fast, rows):
    with pytest.raises(spinney.InvalidArgumentError, match="pass a prefix"):
        Predictor(fast)({f"f{k}": rows[:, k] for k in range(5)} | {"label": rows[:, 0]})


def test_a_dataset_of_ray_is_told_from_rows_in_memory(trained, fast):
    dataset = type("Dataset", (), {"columns": None, "__module__": "ray.data.dataset"})()
    error = spinney.InvalidArgumentError
    for use in (
        fast.predict,
        spinney.read_model(trained).predict,
        lambda X: spinney.accelerate(trained, X),
        lambda X: spinney.certify(fast, X),
    ):
        with pytest.raises(error, match=r"integrations\.ray .*to_pandas"):
            use(dataset)


def test_batches_of_another_kind_are_refused(fast, rows):
    with pytest.raises(spinney.InvalidArgumentError, match="batch_format"):
        Predictor(fast)(rows)


def test_the_content_of_a_file_travels_where_no_disk_is_shared(fast, tmp_path):
    spinney.save(fast, tmp_path / "model.spinney")
    assert PortableModel(tmp_path / "model.spinney").n_bytes == 0
    there = tables.portable_for(tmp_path / "model.spinney")
    assert there.n_bytes == (tmp_path / "model.spinney").stat().st_size
