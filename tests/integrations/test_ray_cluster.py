"""Ray with two actors."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import spinney

pytestmark = [
    pytest.mark.engines,
    # Of Ray's own making, when processes are started and killed.
    pytest.mark.filterwarnings("ignore"),
]

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytest.importorskip("ray.data")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # it would call home
    ray.init(
        num_cpus=4,  # two actors, and room for what reads and repartitions
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        logging_level="error",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture
def many(rows):
    return np.concatenate([rows] * 3)


def test_answers_are_those_of_one_machine(fast, many):
    dataset = ray.data.from_numpy(np.array_split(many, 8))
    scored = spinney.integrations.ray.predict(
        fast, dataset, outputs=("label", "n_evaluated"), batch_size=500
    )
    answers = scored.to_pandas()
    # Blocks may come back in any order: rows are looked up by what is in them.
    own = fast.predict_counted(np.stack(answers["data"].to_list()))
    assert len(answers) == len(many)
    assert (answers["label"] == own[0]).all()
    assert (answers["n_evaluated"] == own[1]).all()


def test_a_class_for_map_batches(named, tmp_path):
    path = str(tmp_path / "model.spinney")
    spinney.save(named, path)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["days", "age", "dose"])
    dataset = ray.data.from_pandas(frame).repartition(6)
    for batch_format in ("numpy", "pandas"):
        answers = dataset.map_batches(
            spinney.integrations.ray.Predictor,
            fn_constructor_args=(path,),
            concurrency=2,
            batch_format=batch_format,
        ).to_pandas()
        assert len(answers) == len(frame)
        own = named.predict(answers[["age", "dose", "days"]])
        assert (answers["label"] == own).all()


def test_an_actor_killed_on_the_way_changes_nothing(fast, many, tmp_path):
    marker = str(tmp_path / "killed")

    class Dying(spinney.integrations.ray.Predictor):
        n_batches = 0

        def __call__(self, batch):
            import os
            import signal
            from pathlib import Path

            self.n_batches += 1
            if self.n_batches == 3 and not os.path.exists(marker):
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    numbered = [
        {"row": np.arange(start, start + 500), "data": many[start : start + 500]}
        for start in range(0, len(many), 500)
    ]
    dataset = ray.data.from_items(
        [
            {"row": int(number), **{f"f{k}": float(row[k]) for k in range(6)}}
            for block in numbered
            for number, row in zip(block["row"], block["data"], strict=True)
        ],
        override_num_blocks=24,
    )

    class DyingByColumn(Dying):
        def __call__(self, batch):
            number = batch.pop("row")
            return {"row": number, **super().__call__(batch)}

    scored = dataset.map_batches(
        DyingByColumn, fn_constructor_args=(fast,), concurrency=2, batch_size=100
    )
    answers = scored.to_pandas().sort_values("row")
    assert os.path.exists(marker)
    assert answers["row"].tolist() == list(range(len(many)))
    own = fast.predict_counted(many)
    assert (answers["label"].to_numpy() == own[0]).all()
    assert (answers["n_evaluated"].to_numpy() == own[1]).all()


def test_bad_columns_are_refused_when_the_job_is_built(named, fast):
    predict = spinney.integrations.ray.predict
    error = spinney.InvalidArgumentError
    frame = pd.DataFrame({"age": [1.0], "dose": [2.0], "days": [3.0]})
    with pytest.raises(error, match="'dose'"):
        predict(named, ray.data.from_pandas(frame.drop(columns="dose")))
    with pytest.raises(error, match="Column 'dose' holds values of type"):
        predict(named, ray.data.from_pandas(frame.assign(dose="much")))
    with pytest.raises(error, match="pass a prefix"):
        predict(named, ray.data.from_pandas(frame.assign(label=1)))
    with pytest.raises(error, match=r"shape \(5,\), but the model was fitted on 6"):
        predict(fast, ray.data.from_numpy(np.ones((3, 5))))
    with pytest.raises(error, match="from_pandas"):
        predict(fast, np.ones((3, 6)))
    for use in (named.predict, lambda X: spinney.certify(named, X)):
        with pytest.raises(error, match=r"integrations\.ray"):
            use(ray.data.from_pandas(frame))
    with pytest.raises(error, match="prefix must be a string"):
        predict(named, ray.data.from_pandas(frame), prefix=1)


def test_blocks_with_their_columns_in_another_order(fast, rows):
    frame = pd.DataFrame(rows.astype(float), columns=list("abcdef"))
    dataset = ray.data.from_pandas([frame[:2000], frame[2000:][list("fedcba")]])
    answers = spinney.integrations.ray.predict(fast, dataset).to_pandas()
    assert len(answers) == len(frame)
    own = fast.predict(answers[list("abcdef")].to_numpy())
    assert (answers["label"] == own).all()


def test_a_column_of_which_all_values_are_missing(named):
    import pyarrow as pa

    ages = np.linspace(-1.0, 1.0, 50)
    table = pa.table({"age": ages, "dose": pa.nulls(50), "days": ages})
    scored = spinney.integrations.ray.predict(named, ray.data.from_arrow(table))
    answers = scored.to_pandas().sort_values("age")
    frame = pd.DataFrame({"age": ages, "dose": np.nan, "days": ages})
    assert (answers["label"].to_numpy() == named.predict(frame)).all()
