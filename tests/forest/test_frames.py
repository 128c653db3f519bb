"""Data frames of every library are rows: the same answers, names heeded, no copies."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spinney
from spinney.errors import InvalidArgumentError
from spinney.forest.frame_rows import FrameRows
from spinney.forest.frames import as_known_frame, frame_of
from spinney.forest.rows import as_rows

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAMES = ["age", "dose", "days", "flag"]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


class Stream:
    """Speaks Arrow and is nothing else; can be read once."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        table, self._table = self._table, None
        return table.__arrow_c_stream__(requested_schema)


class Batch:
    """Speaks the other half of the protocol: one batch."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def mixed_rows(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, n_rows),
            "dose": rng.normal(size=n_rows),
            "days": rng.normal(size=n_rows).astype(np.float32),
            "flag": rng.random(n_rows) < 0.5,
        }
    )


def frames_of(frame):
    """Return the same rows as every kind of frame; what makes one, by name."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    half = table.num_rows // 2
    return {
        "pandas": lambda: frame,
        "pandas, nullable": lambda: frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": lambda: pl.from_arrow(table),
        "polars, lazy": lambda: pl.from_arrow(table).lazy(),
        "arrow": lambda: table,
        "arrow in parts": lambda: pa.concat_tables(
            [table.slice(0, half), table.slice(half)]
        ),
        "record batch": lambda: table.combine_chunks().to_batches()[0],
        "stream": lambda: Stream(table),
        "batch": lambda: Batch(table.combine_chunks().to_batches()[0]),
    }


@pytest.fixture(scope="module")
def model():
    frame = mixed_rows(400, seed=1)
    y = (frame["dose"] + frame["flag"] > 0.4).to_numpy()
    return RandomForestClassifier(30, max_depth=5, random_state=0).fit(frame, y)


def test_every_kind_of_frame_is_answered_alike(model):
    frame = mixed_rows()
    fast = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0
    )
    expected = fast.fit(frame).predict_counted(frame)
    forest, exact = spinney.read_model(model), spinney.accelerate(model)
    for kind, make in frames_of(frame).items():
        np.testing.assert_array_equal(
            forest.predict_proba(make()), model.predict_proba(frame), err_msg=kind
        )
        if kind in ("polars", "stream"):
            fast.fit(make())
            assert fast.feature_names_in_.tolist() == NAMES, kind
        found = fast.predict_counted(make())
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=kind)
        assert fast.predict_proba(make()).shape == (600, 2)
        assert spinney.certify(fast, make()).n_rows == 600
        monitor = spinney.Monitor(fast, share=1.0, random_state=0)
        np.testing.assert_array_equal(monitor.predict(make()), found[0])
        assert monitor.status()["n_checked"] == 600
        np.testing.assert_array_equal(exact.predict(make()), model.predict(frame))


@pytest.mark.parametrize("kind", ["polars", "stream"])
def test_accelerate_takes_any_frame(model, kind):
    frame = mixed_rows(3000, seed=2)
    fast = spinney.accelerate(
        model, frames_of(frame)[kind](), max_disagreement=0.05, random_state=0
    )
    rows = frames_of(mixed_rows(500, seed=3))
    np.testing.assert_array_equal(
        fast.predict(rows["arrow"]()), fast.predict(rows["pandas"]())
    )
    one = pl.from_pandas(frame[:1])
    monitor = spinney.Monitor(fast, share=1.0, random_state=0)
    values = frame.iloc[0].astype(float)
    for row in (one, one.to_arrow(), one.to_dicts()[0], values.to_numpy()):
        assert fast.predictor()(row) == fast.predict(one)[0]
        assert monitor.predictor()(row) == fast.predict(one)[0]
    assert monitor.status()["n_checked"] == 4


@pytest.mark.parametrize("library", ["duckdb", "nanoarrow", "arro3.core"])
def test_libraries_that_speak_arrow(model, library):
    made = pytest.importorskip(library)
    frame = mixed_rows()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if library == "duckdb":
        rows = made.from_arrow(table).filter("age >= 0")
    else:
        rows = made.ArrayStream(table) if library == "nanoarrow" else made.Table(table)
    found = spinney.read_model(model).predict_proba(rows)
    np.testing.assert_array_equal(found, model.predict_proba(frame))


def test_columns_are_put_in_order_and_others_refused_with_the_difference(model):
    frame = mixed_rows()
    forest = spinney.read_model(model)
    fast = spinney.accelerate(model)
    for make in frames_of(frame[NAMES[::-1]]).values():
        for answers in (forest.predict(make()), fast.predict(make())):
            np.testing.assert_array_equal(answers, model.predict(frame))
    fitted = spinney.AllTreesClassifier(FrozenEstimator(model))
    fitted.fit(pl.from_pandas(frame[NAMES[::-1]]))
    assert fitted.feature_names_in_.tolist() == NAMES
    renamed = frame.rename(columns={"dose": "doze"})
    for make in (lambda: renamed, lambda: pa.Table.from_pandas(renamed)):
        with pytest.raises(ValueError, match=r"(?s)unseen.*doze.*missing.*dose"):
            fast.predict(make())
    with pytest.raises(ValueError, match=r"3 features.* on 4"):
        forest.predict(pl.from_pandas(frame.drop(columns="age")))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_missing_column_is_not_replaced_by_the_one_at_its_place(library):
    module = pytest.importorskip(library)
    settings = {"n_estimators": 3, "n_jobs": 1}
    if library == "lightgbm":
        boosted = module.LGBMClassifier(**settings, verbose=-1)
    else:
        boosted = module.XGBClassifier(**settings)
    frame = mixed_rows().astype(float)
    boosted.fit(frame, frame["dose"] > 0)
    wrong = frame.drop(columns="dose").assign(key=1.0)
    forest, fast = spinney.read_model(boosted), spinney.accelerate(boosted)
    for make in frames_of(wrong).values():
        for predict in (forest.predict, fast.predict, fast.predict_proba):
            with pytest.raises(InvalidArgumentError, match=r"'key'.*missing: 'dose'"):
                predict(make())
    # Names that have nothing to do with those of the model may be made up.
    others = frame.set_axis(range(frame.shape[1]), axis=1)
    np.testing.assert_array_equal(fast.predict(others), forest.predict(frame))


def test_names_with_blanks_are_those_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    frame = mixed_rows().astype(float).rename(columns={"dose": "the dose"})
    boosted = lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1)
    boosted.fit(frame, frame["the dose"] > 0)
    assert "the_dose" in spinney.read_model(boosted).feature_names
    fast, expected = spinney.accelerate(boosted), boosted.predict(frame)
    np.testing.assert_array_equal(fast.predict(frame), expected)
    backwards = frame[frame.columns[::-1]]
    for make in frames_of(backwards).values():
        np.testing.assert_array_equal(fast.predict(make()), expected)
    predict_one = fast.predictor()
    rows = [backwards.iloc[k] for k in range(20)]
    for one in (rows, [row.to_dict() for row in rows]):
        assert [predict_one(row) for row in one] == expected[:20].tolist()


def test_names_that_occur_twice_go_by_their_position():
    frame = mixed_rows().set_axis(["a", "b", "a", "c"], axis=1)
    table = pa.Table.from_arrays(
        [pa.array(frame.iloc[:, k]) for k in range(4)], names=list("abac")
    )
    for twice in (frame, table):
        rows = as_rows(twice, 4, F64)
        np.testing.assert_array_equal(rows, frame.to_numpy(dtype=np.float64))
        assert frame_of(twice).integers(0)[0].tolist() == frame.iloc[:, 0].tolist()


def test_a_name_twice_is_refused_where_names_matter(model):
    frame = mixed_rows().set_axis(["age", "dose", "age", "flag"], axis=1)
    table = pa.Table.from_arrays(
        [pa.array(frame.iloc[:, k]) for k in range(4)], names=list(frame)
    )
    batch = table.to_batches()[0]
    forest, fast = spinney.read_model(model), spinney.accelerate(model)
    fitted = spinney.AllTreesClassifier(FrozenEstimator(model))
    budgeted = spinney.BudgetedForestClassifier(max_trees=2)
    calls = [
        forest.predict,
        fast.predict,
        fast.predict_proba,
        fitted.fit,
        lambda rows: spinney.accelerate(model, rows),
        lambda rows: budgeted.fit(rows, model.predict(mixed_rows())),
    ]
    makers = [lambda: frame, lambda: table, lambda: batch, lambda: Stream(table)]
    for call in calls:
        for make in makers:
            with pytest.raises(
                InvalidArgumentError, match=r"different names.*'age' 2 times"
            ):
                call(make())


def test_steps_that_put_out_data_frames_come_before_and_inside():
    frame = mixed_rows()[["dose", "days"]]
    y = (frame["dose"] > 0).to_numpy()
    forest = RandomForestClassifier(20, max_depth=4, random_state=0)
    for library in ("pandas", "polars"):
        inside = make_pipeline(StandardScaler(), forest).set_output(transform=library)
        inside.fit(frame, y)
        fast = spinney.SequentialVotingClassifier(
            FrozenEstimator(inside), max_disagreement=0.05, random_state=0
        ).fit(frame)
        before = make_pipeline(
            StandardScaler(),
            spinney.SequentialVotingClassifier(forest, max_disagreement=0.05),
        ).set_output(transform=library)
        before.fit(frame, y)
        assert before[-1].feature_names_in_.tolist() == ["dose", "days"]
        for rows in (frame, pl.from_pandas(frame)):
            np.testing.assert_array_equal(fast.predict_full(rows), inside.predict(rows))
            assert before.predict(rows).shape == (600,)


# ------------------------------------------------------------------------ no copies


def wide_frames(n_rows, dtype):
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype(dtype)
    columns = {name: np.ascontiguousarray(X[:, k]) for k, name in enumerate(NAMES)}
    yield "pandas, one block", pd.DataFrame(X, columns=NAMES, copy=False), X
    yield "pandas, columns", pd.DataFrame(columns), X
    yield "polars", pl.DataFrame(columns), X
    yield "arrow", pa.table(columns), X


def test_a_frame_that_is_one_block_is_not_copied():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    frame = pd.DataFrame(X, copy=False)
    assert np.shares_memory(as_rows(frame, 4, F32), X)
    forest = spinney.read_model(
        RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    )
    assert np.shares_memory(forest.engine.rows(frame), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_frame_is_never_copied_as_a_whole(dtype):
    n_rows = 1_200_000
    X = np.random.default_rng(1).normal(size=(500, 4))
    model = RandomForestClassifier(3, max_depth=3, random_state=0)
    forest = spinney.read_model(model.fit(X, X[:, 0] > 0))
    forest.predict(X.astype(np.float32))
    for kind, frame, X in wide_frames(n_rows, dtype):
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        answers = forest.engine.raw(forest.engine.rows(frame))
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        # The scores of two classes, twice for a moment, and a few blocks of rows.
        assert peak < 2.2 * answers.nbytes + X.nbytes / 4, kind
        some = slice(100_000, 100_500)
        rows = np.ascontiguousarray(X[some])
        np.testing.assert_array_equal(
            answers[some], forest.engine.raw(forest.engine.rows(rows)), err_msg=kind
        )


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_what_the_whole_frame_would_be(seed):
    rng = np.random.default_rng(seed)
    frame = mixed_rows(200, seed)
    large = pa.array(
        rng.integers(2**60, 2**61, 200), mask=np.arange(200) == 150
    )  # rounded twice, since one is missing
    with_missing = pa.table({"a": large, "b": pa.array(rng.integers(0, 9, 200))})
    cases = [with_missing, pl.from_arrow(with_missing)]
    cases += [make() for make in frames_of(frame).values()]
    for case in cases:
        case = frame_of(case)
        for dtype in (F32, F64):

            def convert(part, case=case, dtype=dtype):
                return as_rows(part, len(case.names), dtype)

            whole = convert(case)
            rows = FrameRows(case, convert)
            assert rows.dtype == whole.dtype
            blocks = [rows[start : start + 64].dense() for start in range(0, 200, 64)]
            np.testing.assert_array_equal(np.concatenate(blocks), whole)
            chosen = rng.permutation(200)[:20]
            mask = np.isin(np.arange(200), chosen)
            np.testing.assert_array_equal(rows[chosen].dense(), whole[chosen])
            np.testing.assert_array_equal(rows[mask].dense(), whole[mask])
            np.testing.assert_array_equal(rows[7], whole[7])


# ---------------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    "column", [pd.Series([1.0]), pl.Series([1.0]), pa.array([1.0]), np.ones(3), [1.0]]
)
def test_a_column_is_no_frame(column):
    assert frame_of(column) is None
    assert as_known_frame(column) is column


def test_a_table_that_nobody_knows_is_read_as_an_array():
    class Table:
        columns = ("a", "b")

        def __array__(self, dtype=None, copy=None):
            return np.array([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)

    assert as_rows(Table(), 2, F64).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_what_speaks_arrow_needs_a_library_that_does(monkeypatch):
    from spinney.forest import frames

    batch = Batch(pa.record_batch({"a": [1.0]}))
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        frame_of(batch)


def test_what_is_no_frame_needs_no_library_for_frames(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    model = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    forest, expected = spinney.read_model(model), model.predict(X)
    monkeypatch.setitem(sys.modules, "narwhals", None)  # cannot be imported
    for rows in (X, X.tolist(), X.astype(np.float64), X[::-1][::-1], csr_array(X)):
        np.testing.assert_array_equal(forest.predict(rows), expected)
