"""Spark with two Python workers, in a JVM of its own."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pytest

import spinney

pytestmark = [
    pytest.mark.engines,
    # Of Spark's own making: sockets, and pandas that is newer than Spark knows.
    pytest.mark.filterwarnings("ignore"),
]

pyspark = pytest.importorskip("pyspark", reason="needs the extra spark")
pd = pytest.importorskip("pandas")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs a Java runtime", allow_module_level=True)


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2, 4]")  # two threads, three retries
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def engine():
    return spinney.integrations.spark


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(6000, 3)), columns=["days", "age", "dose"])
    frame.insert(0, "row", np.arange(len(frame)))
    return frame


@pytest.fixture(scope="module")
def table(spark, frame):
    return spark.createDataFrame(frame).repartition(6)


@pytest.fixture(scope="module")
def own(named, frame):
    return named.predict_counted(frame[["age", "dose", "days"]])


def in_order(scored):
    return scored.toPandas().sort_values("row").reset_index(drop=True)


@pytest.mark.parametrize("how", ["object", "path"])
def test_answers_are_those_of_one_machine(engine, named, table, own, how, tmp_path):
    model = named
    if how == "path":
        model = str(tmp_path / "model.spinney")
        spinney.save(named, model)
    scored = engine.predict(model, table, outputs=("label", "n_evaluated"))
    assert scored.columns == [*table.columns, "label", "n_evaluated"]
    answers = in_order(scored)
    assert (answers["label"] == own[0]).all()
    assert (answers["n_evaluated"] == own[1]).all()


def test_rows_are_answered_once_for_all_outputs(engine, named, table):
    scored = engine.predict(named, table, outputs=("label", "n_evaluated"))
    plan = scored._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1
    assert plan.count("answer(") <= 2  # named once, and once as what comes out


def test_texts_and_probabilities(engine, spark, trained, rows):
    forest = spinney.read_model(trained)
    frame = pd.DataFrame(rows.astype(float), columns=list("abcdef"))
    frame.insert(0, "row", np.arange(len(frame)))
    table = spark.createDataFrame(frame).repartition(3)
    scored = engine.predict(trained, table.select(*"abcdef"))
    assert scored.columns[-3:] == ["label", "n_evaluated", "probability"]
    answer = engine.predict_udf(trained)
    answers = in_order(table.withColumn("answer", answer(*"abcdef")))
    labels = [row["label"] for row in answers["answer"]]
    assert (np.array(labels) == trained.predict(rows)).all()
    shares = np.array([list(row["probability"]) for row in answers["answer"]])
    assert (shares == forest.predict_proba(rows)).all()
    assert {row["n_evaluated"] for row in answers["answer"]} == {40}


def test_sql_and_structs(engine, spark, named, table, own):
    from pyspark.sql import functions as F

    answer = engine.predict_udf(named, outputs=("label", "n_evaluated"))
    spark.udf.register("score", answer)
    table.createOrReplaceTempView("patients")
    scored = spark.sql(
        "select row, score(age, dose, days).label as label from patients"
    )
    assert (in_order(scored)["label"] == own[0]).all()
    features = F.struct("days", "dose", "age")
    scored = table.select("row", answer(features).label.alias("label"))
    assert (in_order(scored)["label"] == own[0]).all()


def test_names_with_dots(engine, spark, fast, rows):
    names = ["a.b", "c", "d.e", "f", "g", "h i"]
    table = spark.createDataFrame(pd.DataFrame(rows.astype(float), columns=names))
    labels = [row["label"] for row in engine.predict(fast, table).collect()]
    assert labels == fast.predict(rows).tolist()
    assert spinney.certify(fast, table) == spinney.certify(fast, rows)


def test_missing_values_integers_and_decimals(engine, spark, named):
    frame = pd.DataFrame({"age": [1, 2, None, -3], "dose": [0.5, None, 1.5, 2.5]})
    expected = named.predict(frame.assign(days=[1.0, 0.0, 1.0, 1.0]))
    from pyspark.sql import functions as F

    rows = [(1, 0.5, True), (2, None, False), (None, 1.5, True), (-3, 2.5, True)]
    table = spark.createDataFrame(rows, "age int, dose double, days boolean")
    table = table.withColumn("age", F.col("age").cast("decimal(10, 2)"))
    labels = [row["label"] for row in engine.predict(named, table).collect()]
    assert labels == expected.tolist()


def test_a_column_of_which_all_values_are_missing(engine, named, table, frame):
    from pyspark.sql import functions as F

    scored = engine.predict(named, table.withColumn("dose", F.lit(None)))
    own = named.predict(frame.assign(dose=np.nan)[["age", "dose", "days"]])
    assert (in_order(scored)["label"] == own).all()


def test_partitions_without_rows(engine, named, table):
    nothing = table.where("age > 1000")
    assert engine.predict(named, nothing).collect() == []
    certificate = spinney.certify(named, nothing)
    assert certificate.n_rows == 0
    assert certificate.upper_bound == 1.0


def test_workers_killed_on_the_way_change_nothing(engine, named, table, own, tmp_path):
    marker = str(tmp_path / "killed")

    def kill_once(frames):
        import os
        import signal
        from pathlib import Path

        for number, frame in enumerate(frames):
            yield frame
            if number or not os.path.exists(marker):
                Path(marker).touch()
                # All Python workers of the machine, this one last.
                siblings = []
                for entry in Path("/proc").glob("[0-9]*/stat"):
                    fields = entry.read_text().rpartition(")")[2].split()
                    if int(fields[1]) == os.getppid():
                        siblings.append(int(entry.parent.name))
                for pid in sorted(siblings, key=lambda pid: pid == os.getpid()):
                    os.kill(pid, signal.SIGKILL)

    broken = table.mapInPandas(kill_once, table.schema)
    scored = engine.predict(named, broken, outputs=("label", "n_evaluated"))
    answers = in_order(scored)
    assert os.path.exists(marker)
    assert len(answers) == len(own[0])
    assert (answers["label"] == own[0]).all()
    assert (answers["n_evaluated"] == own[1]).all()


def test_calibration_on_the_workers(engine, named, table, frame):
    features = table.select("age", "dose", "days")
    drawn = engine.sample(features, 500, random_state=0)
    assert drawn.shape == (500, 3)
    assert not drawn.duplicated().any()
    everything = engine.sample(features, 10_000, random_state=0)
    assert sorted(everything["age"]) == sorted(frame["age"])
    fast = spinney.accelerate(  # a table may have other columns, too
        named.forest_, table, max_disagreement=0.02, method="sequential"
    )
    assert list(fast.feature_names_in_) == ["age", "dose", "days"]
    expected = spinney.certify(named, frame[["age", "dose", "days"]])
    assert spinney.certify(named, table) == expected
    by_class = spinney.certify(named, table, per_class=True).by_class
    in_memory = spinney.certify(named, frame[["age", "dose", "days"]], per_class=True)
    assert by_class == in_memory.by_class


def test_a_sample_takes_one_pass_without_a_shuffle(engine, table, monkeypatch):
    plans = []
    kind = type(table)
    original = kind.toPandas

    def recorded(self):
        plans.append(self._jdf.queryExecution().executedPlan().toString())
        return original(self)

    monkeypatch.setattr(kind, "toPandas", recorded)
    engine.sample(table, 10, random_state=0)
    assert "TakeOrderedAndProject" in plans[0]


def test_bad_columns_are_refused_when_the_job_is_built(engine, spark, named, table):
    from pyspark.sql import functions as F

    error = spinney.InvalidArgumentError
    with pytest.raises(error, match="'dose'"):
        engine.predict(named, table.drop("dose"))
    texts = table.withColumn("dose", F.lit("much"))
    with pytest.raises(error, match="Column 'dose' holds values of Spark's type str"):
        engine.predict(named, texts)
    with pytest.raises(error, match="Column 'dose'"):
        spinney.certify(named, texts)
    with pytest.raises(error, match="Column 'dose'"):
        spinney.accelerate(named.forest_, texts)
    intervals = table.withColumn("dose", F.expr("interval 1 day"))
    with pytest.raises(error, match="Column 'dose' holds values of Spark's type inte"):
        engine.predict(named, intervals)
    with pytest.raises(error, match="prefix must be a string"):
        engine.predict(named, table, prefix=1)
    with pytest.raises(error, match="pass a prefix"):
        engine.predict(named, table.withColumn("label", F.lit(1)))
    scored = engine.predict(
        named, table.withColumn("label", F.lit(1)), outputs="label", prefix="our_"
    )
    assert scored.columns[-2:] == ["label", "our_label"]
    with pytest.raises(error, match=r"spark\.createDataFrame"):
        engine.predict(named, pd.DataFrame({"age": [1.0]}))
