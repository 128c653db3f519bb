"""Dask without a cluster: what is built, what it computes, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import spinney

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def engine():
    return spinney.integrations.dask


@pytest.fixture
def frame(rows):
    return pd.DataFrame(rows[:, :3], columns=["dose", "days", "age"]).set_index(
        np.arange(len(rows)) + 100
    )


def test_arrays_are_answered_as_in_memory(engine, fast, rows):
    X = da.from_array(rows, chunks=(700, 6))
    labels = engine.predict(fast, X)
    assert labels.chunks == (X.chunks[0],)
    assert labels.dtype == labels._meta.dtype == fast.classes_.dtype
    assert (labels.compute() == fast.predict(rows)).all()
    both = dask.compute(*engine.predict_counted(fast, X))
    for ours, own in zip(both, fast.predict_counted(rows), strict=True):
        assert ours.dtype == own.dtype
        assert (ours == own).all()


def test_probabilities_of_arrays(engine, trained, rows):
    X = da.from_array(rows, chunks=(1500, 6))
    shares = engine.predict_proba(trained, X)
    assert shares.chunks == (X.chunks[0], (2,))
    assert shares.dtype == np.float64
    assert (shares.compute() == spinney.read_model(trained).predict_proba(rows)).all()


def test_nothing_is_computed_before_it_is_asked_for(engine, fast):
    def fail(block):
        raise AssertionError

    X = da.ones((10, 6), chunks=(5, 6)).map_blocks(fail, meta=np.empty((0, 0)))
    for lazy in (engine.predict(fast, X), *engine.predict_counted(fast, X)):
        assert hasattr(lazy, "dask")


def test_unknown_numbers_of_rows_stay_unknown(engine, fast, trained, rows):
    X = da.from_array(rows, chunks=(1000, 6))
    some = X[X[:, 0] > 0.0]
    assert np.isnan(some.shape[0])
    labels = engine.predict(fast, some)
    assert np.isnan(labels.shape[0])
    assert (labels.compute() == fast.predict(rows[rows[:, 0] > 0.0])).all()
    assert np.isnan(engine.predict_proba(trained, some).shape[0])


def test_blocks_and_partitions_without_rows(engine, fast, named, rows, frame):
    X = da.from_array(rows, chunks=((0, 2000, 0, 2000), (6,)))
    assert (engine.predict(fast, X).compute() == fast.predict(rows)).all()
    none = X[X[:, 0] > 100.0]
    assert engine.predict(fast, none).compute().shape == (0,)
    table = dd.from_pandas(frame, npartitions=3)
    nothing = table[table["age"] > 100.0]
    labels, n_evaluated = dask.compute(*engine.predict_counted(named, nothing))
    assert len(labels) == len(n_evaluated) == 0
    assert labels.dtype == named.classes_.dtype


def test_data_frames_are_answered_by_name(engine, named, frame):
    table = dd.from_pandas(frame.assign(id="x"), npartitions=3)
    own = named.predict_counted(frame[["age", "dose", "days"]])
    labels = engine.predict(named, table)
    assert labels.name == "label"
    assert labels.dtype == named.classes_.dtype
    computed = labels.compute()
    assert (computed.index == frame.index).all()
    assert (computed.to_numpy() == own[0]).all()
    both = dask.compute(*engine.predict_counted(named, table))
    assert (both[0].to_numpy() == own[0]).all()
    assert (both[1].to_numpy() == own[1]).all()


def test_texts_as_labels_and_probabilities_in_data_frames(engine, trained, rows):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    table = dd.from_pandas(frame, npartitions=2)
    labels = engine.predict(trained, table)
    assert (labels.compute().to_numpy() == trained.predict(rows)).all()
    assert labels.dtype == labels.compute().dtype
    shares = engine.predict_proba(trained, table)
    assert list(shares.columns) == ["no", "yes"]
    expected = spinney.read_model(trained).predict_proba(rows)
    assert (shares.compute().to_numpy() == expected).all()


def test_the_model_is_one_key_of_the_graph(engine, fast, rows):
    X = da.from_array(rows, chunks=(100, 6))
    (lazy,) = dask.optimize(engine.predict(fast, X))
    keys = [key for key in dict(lazy.dask) if str(key).startswith("spinney-model")]
    assert len(keys) == 1


def test_equal_jobs_have_equal_names(engine, fast, rows):
    X = da.from_array(rows, chunks=(1000, 6), name="rows")
    assert engine.predict(fast, X).name == engine.predict(fast, X).name


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: da.ones((100, 6), chunks=(50, 2)), r"X\.rechunk"),
        (lambda: da.ones((100, 5), chunks=(50, 5)), "5 columns.* 6"),
        (lambda: da.ones(100, chunks=50), "two dimensions"),
        (lambda: da.ones((100, 6), chunks=50).astype(str), "real numbers"),
        (lambda: np.ones((100, 6)), "dask array or a dask data frame"),
        (lambda: dask.delayed(np.ones((100, 6))), "dask array or a dask data frame"),
        (
            lambda: dd.from_pandas(pd.Series([1.0], name="a"), npartitions=1),
            "dask array or a dask data frame",
        ),
        (
            lambda: dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1),
            "1 columns",
        ),
    ],
)
def test_rows_that_cannot_be_answered_are_refused_at_once(engine, fast, make, words):
    with pytest.raises(spinney.InvalidArgumentError, match=words):
        engine.predict(fast, make())


def test_columns_that_are_missing_or_texts_are_refused_at_once(engine, named, frame):
    with pytest.raises(spinney.InvalidArgumentError, match="'dose'"):
        engine.predict(named, dd.from_pandas(frame.drop(columns="dose"), npartitions=2))
    texts = dd.from_pandas(frame.assign(dose="much"), npartitions=2)
    with pytest.raises(spinney.InvalidArgumentError, match="Column 'dose' holds"):
        engine.predict(named, texts)


def test_a_partition_that_lacks_a_column_is_told(engine, named, frame):
    def drop(part):
        return part.drop(columns="dose") if part.index[0] > 1000 else part

    table = dd.from_pandas(frame, npartitions=3)
    uneven = table.map_partitions(drop, meta=table._meta, enforce_metadata=False)
    with pytest.raises(
        spinney.InvalidArgumentError, match=r"lacks the columns \['dose"
    ):
        engine.predict(named, uneven).compute()
    # Nor is a sample filled up with missing values.
    with pytest.raises(
        spinney.InvalidArgumentError, match=r"lacks the columns \['dose"
    ):
        engine.sample(uneven, 500)


def test_a_block_of_another_width_is_told(engine, fast, rows):
    X = da.from_array(rows, chunks=(1000, 6))
    uneven = X.map_blocks(lambda block: block[:, :5], meta=X._meta, dtype=X.dtype)
    with pytest.raises(spinney.InvalidArgumentError, match="wrong chunks"):
        engine.predict(fast, uneven).compute()


def test_models_that_cannot_count_are_refused_at_once(engine, trained, rows):
    from sklearn.frozen import FrozenEstimator

    y = trained.predict(rows)
    anytime = spinney.AnytimeForestClassifier(FrozenEstimator(trained)).fit(
        rows[:200], y[:200]
    )
    X = da.from_array(rows, chunks=(1000, 6))
    with pytest.raises(spinney.InvalidArgumentError, match="does not count"):
        engine.predict_counted(anytime, X)
    assert (engine.predict(anytime, X).compute() == anytime.predict(rows)).all()


# --------------------------------------------------------------------- calibration


def test_samples_have_the_size_and_no_row_twice(engine):
    numbers = np.arange(1000.0)[:, None]
    X = da.from_array(numbers, chunks=((0, 300, 1, 699), (1,)))
    drawn = engine.sample(X, 50, random_state=0)
    assert drawn.shape == (50, 1)
    assert len(np.unique(drawn)) == 50
    assert (drawn == engine.sample(X, 50, random_state=0)).all()
    assert not np.array_equal(drawn, engine.sample(X, 50, random_state=1))
    everything = engine.sample(X, 5000, random_state=0)
    assert sorted(everything[:, 0]) == list(range(1000))


def test_samples_of_data_frames_keep_types(engine):
    frame = pd.DataFrame({"a": np.arange(500), "b": ["x", "y"] * 250})
    table = dd.from_pandas(frame, npartitions=4)
    table = table[table["a"] > 200]  # some partitions have no rows
    drawn = engine.sample(table, 40, random_state=0)
    assert drawn.shape == (40, 2)
    assert drawn["a"].min() > 200
    assert drawn["a"].dtype == frame["a"].dtype
    assert len(engine.sample(table[table["a"] > 1000], 40)) == 0


@pytest.mark.parametrize("n_rows", [0, -1, 2.5, True, "many"])
def test_sizes_that_make_no_sense_are_refused(engine, n_rows):
    with pytest.raises(spinney.InvalidArgumentError, match="n_rows"):
        engine.sample(da.ones((10, 1)), n_rows)


def test_accelerate_and_certify_take_arrays_and_frames(named, trained, rows, frame):
    X = da.from_array(rows, chunks=(900, 6))
    settings = {"max_disagreement": 0.02, "method": "sequential", "random_state": 0}
    fast = spinney.accelerate(trained, X, **settings)
    assert fast.n_features_in_ == 6
    assert spinney.certify(fast, X) == spinney.certify(fast, rows)
    frame = frame[["age", "dose", "days"]]
    table = dd.from_pandas(frame, npartitions=3)
    model = spinney.accelerate(named.forest_, table, **settings)
    assert list(model.feature_names_in_) == ["age", "dose", "days"]
    assert spinney.certify(named, table) == spinney.certify(named, frame)


def test_certificates_of_classes_are_those_of_rows_in_memory(named, rows, frame):
    table = dd.from_pandas(frame, npartitions=3)
    certificate = spinney.certify(named, table, per_class=True)
    in_memory = frame[["age", "dose", "days"]]
    assert certificate == spinney.certify(named, in_memory, per_class=True)
    assert list(certificate.by_class) == [0, 1]


def test_pandas_own_types_are_answered_without_names(engine, fast, rows):
    frame = pd.DataFrame(rows.astype(float), columns=list("abcdef"))
    frame["c"] = frame["c"].astype("Float64")
    frame["c"] = frame["c"].mask(frame["c"] > 0.5)
    labels = engine.predict(fast, dd.from_pandas(frame, npartitions=2)).compute()
    expected = fast.predict(frame.to_numpy(dtype=float, na_value=np.nan))
    assert (labels.to_numpy() == expected).all()


def test_accelerate_takes_the_columns_of_the_model(engine, named, frame, monkeypatch):
    table = dd.from_pandas(frame.assign(key="k"), npartitions=3)
    model = spinney.accelerate(
        named.forest_, table, max_disagreement=0.02, method="sequential", random_state=0
    )
    assert list(model.feature_names_in_) == ["age", "dose", "days"]
    assert spinney.certify(model, table).n_rows == len(frame)
    # What does not fit is told before rows are drawn.
    monkeypatch.setattr(engine, "sample", None)
    for wrong in (table.assign(dose="much"), table.drop(columns="dose")):
        with pytest.raises(spinney.InvalidArgumentError, match="'dose'"):
            spinney.accelerate(named.forest_, wrong)
    with pytest.raises(spinney.InvalidArgumentError, match="fitted on 3"):
        spinney.accelerate(named.forest_, da.ones((100, 5)))


def test_accelerate_needs_rows(trained, rows):
    empty = da.from_array(rows, chunks=(900, 6))[:0]
    with pytest.raises(spinney.InvalidArgumentError, match="X has no rows"):
        spinney.accelerate(trained, empty, max_disagreement=0.02)


def test_a_forest_has_nothing_to_be_compared_with(engine, trained, rows):
    with pytest.raises(spinney.InvalidArgumentError, match="nothing to compare"):
        engine.count_disagreements(trained, da.from_array(rows))


def test_accelerate_draws_as_many_rows_as_it_says(trained, rows, monkeypatch):
    module = __import__("spinney.acceleration.accelerate", fromlist=["accelerate"])
    monkeypatch.setattr(module, "ROWS_TO_DRAW", 1000)
    X = da.from_array(rows, chunks=(900, 6))
    fast = spinney.accelerate(
        trained, X, max_disagreement=0.02, method="sequential", random_state=0
    )
    # 45 % of 1,000 rows are for the promise.
    assert fast.promise_.n_rows == 450


def test_rows_chunked_along_columns_are_refused_before_calibration(trained):
    X = da.ones((100, 6), chunks=(50, 2))
    with pytest.raises(spinney.InvalidArgumentError, match=r"X\.rechunk"):
        spinney.accelerate(trained, X)
