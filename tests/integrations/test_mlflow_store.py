"""MLflow with a local store, its server as a process, and its Spark function."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import spinney

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore"),  # of MLflow's own making
]

mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
pd = pytest.importorskip("pandas")


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/store.db")
    mlflow.set_registry_uri(f"sqlite:///{tmp_path}/store.db")
    return tmp_path


@pytest.fixture
def flavor():
    return spinney.integrations.mlflow


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    return pd.DataFrame(rng.normal(size=(300, 3)), columns=["days", "age", "dose"])


@pytest.fixture
def own(named, frame):
    return named.predict_counted(frame[["age", "dose", "days"]])


def test_a_model_is_saved_as_its_file(flavor, named, frame, own, tmp_path):
    path = str(tmp_path / "model")
    flavor.save_model(named, path)
    spinney.save(named, tmp_path / "plain.spinney")
    stored = (tmp_path / "model" / "model.spinney").read_bytes()
    assert stored == (tmp_path / "plain.spinney").read_bytes()
    again = flavor.load_model(path)
    assert type(again) is type(named)
    assert (again.predict(frame[["age", "dose", "days"]]) == own[0]).all()
    requirements = (tmp_path / "model" / "requirements.txt").read_text()
    assert f"spinney=={spinney.__version__}" in requirements
    assert all("==" in line for line in requirements.split() if line)
    info = mlflow.models.get_model_info(path)
    assert info.signature.inputs.input_names() == ["age", "dose", "days"]
    assert info.saved_input_example_info is not None
    assert set(info.flavors) == {"python_function", "spinney"}


def test_a_logged_and_registered_model_answers(flavor, named, frame, own):
    with mlflow.start_run():
        info = flavor.log_model(named, name="model", registered_model_name="triage")
    again = mlflow.pyfunc.load_model(info.model_uri)
    assert (again.predict(frame) == own[0]).all()
    registered = mlflow.pyfunc.load_model("models:/triage/1")
    assert (registered.predict(frame) == own[0]).all()
    assert type(flavor.load_model("models:/triage/1")) is type(named)


def test_counts_and_probabilities(flavor, named, trained, frame, own, rows, tmp_path):
    counted = str(tmp_path / "counted")
    flavor.save_model(named, counted, pyfunc_predict_fn="predict_counted")
    answers = mlflow.pyfunc.load_model(counted).predict(frame)
    assert (answers["n_evaluated"] == own[1]).all()
    shares = str(tmp_path / "shares")
    flavor.save_model(trained, shares, pyfunc_predict_fn="predict_proba")
    answers = mlflow.pyfunc.load_model(shares).predict(rows.astype(float))
    assert list(answers.columns) == ["no", "yes"]
    expected = spinney.read_model(trained).predict_proba(rows)
    assert (answers.to_numpy() == expected).all()


def test_bad_settings_are_refused(flavor, named, frame, tmp_path):
    with pytest.raises(spinney.InvalidArgumentError, match="pyfunc_predict_fn"):
        flavor.save_model(named, str(tmp_path / "a"), pyfunc_predict_fn="score")
    flavor.save_model(named, str(tmp_path / "b"))
    again = mlflow.pyfunc.load_model(str(tmp_path / "b"))
    with pytest.raises(mlflow.exceptions.MlflowException, match="dose"):
        again.predict(frame.drop(columns="dose"))


def test_frames_of_other_libraries_without_a_signature(flavor, named, frame, own):
    pl = pytest.importorskip("polars")
    flavor.save_model(named, "model", input_example=False)
    again = mlflow.pyfunc.load_model("model")
    table = pl.from_pandas(frame.assign(key="k"))  # a column that the model lacks
    for rows in (table, table.lazy(), table.to_arrow(), frame):
        assert (again.predict(rows) == own[0]).all()
    with pytest.raises(spinney.InvalidArgumentError, match=r"lack 1 .*'dose'"):
        again.predict(table.drop("dose"))
    for rows in (frame.to_numpy().tolist(), None, "rows"):
        with pytest.raises(spinney.InvalidArgumentError, match="array or a data frame"):
            again.predict(rows)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_the_server_of_mlflow_answers(flavor, named, frame, own, tmp_path):
    path = str(tmp_path / "model")
    flavor.save_model(named, path)
    port = free_port()
    command = ["models", "serve", "-m", path, "-h", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *command, "--env-manager", "local"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
        },
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", server)
        body = json.dumps({"dataframe_split": frame.to_dict(orient="split")}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations",
            body,
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answers = json.load(response)["predictions"]
        assert answers == own[0].tolist()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def wait_for(url, server, seconds=120):
    """Return once a server answers."""
    end = time.monotonic() + seconds
    while True:
        assert server.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.2)
        else:
            return


def test_the_spark_function_of_mlflow_answers(flavor, named, frame, own, tmp_path):
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        path = str(tmp_path / "model")
        flavor.save_model(named, path)
        answer = mlflow.pyfunc.spark_udf(
            spark, path, result_type="long", env_manager="local"
        )
        table = spark.createDataFrame(frame.assign(row=range(len(frame))))
        scored = table.withColumn("label", answer("age", "dose", "days")).toPandas()
        assert (scored.sort_values("row")["label"].to_numpy() == own[0]).all()
    finally:
        spark.stop()
