"""Tables in parts: what is in the file is what comes out, whatever the parts are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spinney.cli import csv_files, tables
from spinney.cli.models import without_label
from spinney.cli.tables import Table

N_ROWS = 1000


@pytest.fixture
def frame():
    """Return rows of several types with missing values, and texts as labels."""
    chance = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": chance.normal(size=N_ROWS),
            "b": chance.integers(0, 9, N_ROWS).astype(float),
            "c": chance.normal(size=N_ROWS),
            "kind": chance.choice(["x", "y"], N_ROWS),
        }
    )
    frame.loc[3, "a"] = np.nan
    # Integers as far as the first rows tell, and missing until late.
    frame.loc[N_ROWS - 5, "b"] = 0.5
    frame.loc[: N_ROWS - 10, "c"] = np.nan
    return frame


def write(frame, path):
    name = path.name
    if name.endswith(".npz"):
        rows = frame.drop(columns="kind").to_numpy()
        np.savez(
            path,
            X=np.asfortranarray(rows) if "columns" in name else rows,
            kind=frame["kind"].to_numpy().astype(str),
        )
    elif name.endswith((".csv", ".csv.gz")):
        frame.to_csv(path, index=False)
    elif name.endswith(".parquet"):
        frame.to_parquet(path, row_group_size=300)
    elif "stream" in name:
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=350)
    else:
        frame.to_feather(path)


@pytest.mark.parametrize(
    "name",
    [
        "t.csv",
        "t.csv.gz",
        "t.parquet",
        "t.feather",
        "stream.arrow",
        "t.npz",
        "columns.npz",
    ],
)
@pytest.mark.parametrize("per_part", [64, 10_000])
def test_parts_put_together_are_the_table(frame, tmp_path, monkeypatch, name, per_part):
    monkeypatch.setattr(tables, "ROWS_PER_PART", per_part)
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 4096)
    write(frame, tmp_path / name)
    parts = list(Table(tmp_path / name, "kind", None, 3).parts())
    assert max(len(part.rows) for part in parts) <= per_part
    assert len(parts) > 1 or per_part == 10_000
    rows = np.concatenate([part.rows for part in parts])
    np.testing.assert_array_equal(rows, frame.drop(columns="kind").to_numpy())
    labels = np.concatenate([part.labels for part in parts])
    assert labels.tolist() == frame["kind"].tolist()
    shares = [part.share for part in parts]
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] == pytest.approx(1.0, abs=0.01)


def test_wide_tables_have_parts_of_fewer_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "NUMBERS_PER_PART", 100)
    np.savez(tmp_path / "t.npz", X=np.ones((25, 10)))
    parts = list(Table(tmp_path / "t.npz", None, None, 10).parts())
    assert [len(part.rows) for part in parts] == [10, 10, 5]


@pytest.mark.parametrize("names", [("b", "a"), ("b", "a_column")])
def test_columns_are_taken_by_name_in_the_order_of_the_model(tmp_path, names):
    frame = pd.DataFrame({"id": [7, 8], "a": [1.0, 2.0], "b": [3.0, 4.0]})
    frame = frame.rename(columns={"a": names[1].replace("_", " ")})
    frame.to_parquet(tmp_path / "t.parquet")
    rows = Table(tmp_path / "t.parquet", None, names, 2).whole().rows
    np.testing.assert_array_equal(rows, [[3.0, 1.0], [4.0, 2.0]])


def test_made_up_names_of_a_model_are_ignored(tmp_path):
    pd.DataFrame({"a": [1.0], "b": [3.0]}).to_parquet(tmp_path / "t.parquet")
    names = ("Column_0", "Column_1")
    rows = Table(tmp_path / "t.parquet", None, names, 2).whole().rows
    np.testing.assert_array_equal(rows, [[1.0, 3.0]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,x\n1,2\n", "lacks columns that the model was trained on: 'b'"),
        ("a,a\n1,2\n", "several columns called 'a'"),
        ("a,b,target\n1,2,3\n", None),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path, content, words):
    (tmp_path / "t.csv").write_text(content)
    table = Table(tmp_path / "t.csv", "target", ("a", "b"), 2, needs_target=False)
    if words is None:
        np.testing.assert_array_equal(table.whole().rows, [[1, 2]])
        return
    with pytest.raises(ValueError, match=words):
        table.whole()


def test_large_integers_and_flags_become_floats(tmp_path):
    frame = pd.DataFrame({"a": [2**60 + 1, 3], "b": [True, False]})
    for name in ("t.csv", "t.parquet"):
        (frame.to_csv if name == "t.csv" else frame.to_parquet)(
            tmp_path / name, index=False
        )
        rows = Table(tmp_path / name, None, None, 2).whole().rows
        np.testing.assert_array_equal(rows, [[2.0**60, 1.0], [3.0, 0.0]])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.empty((0, 2))}, "has no rows"),
        ({"X": np.ones((3, 2)), "y": np.ones(2)}, "one label for each of the 3 rows"),
        ({"X": np.ones((3, 2)), "y": np.array(["a", 1, None], object)}, "astype"),
        ({"X": np.array([["a", "b"]])}, "must hold numbers"),
        ({"X": np.ones(3)}, "an array X of shape"),
        ({"X": np.ones((3, 4))}, "has 4 columns, but the model was trained on 2"),
    ],
)
def test_an_npz_file_that_does_not_fit_is_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=words):
        Table(tmp_path / "t.npz", None, None, 2).whole()


def test_an_npz_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.ones((3000, 2)))
    content = bytearray(path.read_bytes())
    content[20_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not an NPZ file of numbers"):
        Table(path, None, None, 2).whole()
    path.write_bytes(content[:9000])
    with pytest.raises(ValueError, match="is not an NPZ file of numbers"):
        Table(path, None, None, 2).whole()


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ([1, 0, 1], [0, 0, 0]),
        ([1.0, np.nan, 0.0], [0, 1, 0]),
        (np.array(["a", "", "b"]), [0, 1, 0]),
        (np.array(["a", None, np.nan, ""], object), [0, 1, 1, 1]),
        (np.array([True, False]), [0, 0]),
        ([], []),
    ],
)
def test_missing_labels_are_found_in_every_type(labels, missing):
    found = without_label(np.asarray(labels))
    assert found.dtype == bool
    assert found.tolist() == [bool(flag) for flag in missing]
