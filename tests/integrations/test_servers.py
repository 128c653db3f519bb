"""The examples of servers, as processes that are asked over a socket."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import spinney

pytestmark = pytest.mark.engines

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(spinney.__file__).parent.parent
if not EXAMPLES.is_dir():
    pytest.skip("examples are not shipped here", allow_module_level=True)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def call(url, body=None, seconds=30):
    """Return the status and the text of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(url, server, seconds=120):
    """Return once a server answers."""
    end = time.monotonic() + seconds
    while True:
        assert server.poll() is None, "the server has ended"
        try:
            if call(url, seconds=5)[0] == 200:
                return
        except (urllib.error.URLError, OSError):
            pass
        assert time.monotonic() < end, "the server does not answer"
        time.sleep(0.2)


def environment(**more):
    paths = os.pathsep.join([str(SOURCE), str(EXAMPLES)])
    return {**os.environ, "PYTHONPATH": paths, **more}


@pytest.fixture
def service(fast, tmp_path):
    """The address of a service with FastAPI, its process, and its model file."""
    for library in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(library)
    path = tmp_path / "model.spinney"
    spinney.save(fast, path)
    port = free_port()
    server = subprocess.Popen(
        [
            sys.executable,
            str(EXAMPLES / "serve_http.py"),
            str(path),
            "--port",
            str(port),
        ],
        env=environment(),
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/health", server)
        yield address, server, path
    finally:
        if server.poll() is None:
            server.terminate()
            server.wait(30)


def metric(text, name):
    """Return the value of a metric."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_a_service_answers_refuses_and_counts(service, fast, rows):
    address, _, _ = service
    some = rows[:40]
    for row, label in zip(some, fast.predict(some), strict=True):
        features = [None if np.isnan(value) else float(value) for value in row]
        status, answer = call(f"{address}/predict", {"features": features})
        assert (status, json.loads(answer)) == (200, {"label": label})
    for wrong in ({"features": [1, 2]}, {"features": [1, 2, 3, 4, 5, "x"]}, [1], {}):
        status, answer = call(f"{address}/predict", wrong)
        assert status == 422, answer
    status, text = call(f"{address}/metrics")
    assert status == 200
    assert metric(text, "spinney_latency_seconds_count") == 40
    assert metric(text, "spinney_refused_total") == 4
    # The row that loads the kernels is seen, too.
    assert metric(text, "spinney_monitor_seen_total") == 41
    assert metric(text, "spinney_monitor_max_disagreement") == fast.max_disagreement
    assert "spinney_trees_evaluated_bucket" in text


def test_a_new_file_is_taken_without_dropping_requests(service, fast, trained, rows):
    address, _, path = service
    row = [float(value) for value in rows[1]]
    expected = {"label": fast.predict(rows[1:2])[0]}
    answers, ended = [], threading.Event()

    def ask():
        while not ended.is_set():
            answers.append(call(f"{address}/predict", {"features": row}))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    try:
        for number in range(3):
            spinney.save(fast, path)
            if number == 0:  # by itself, since the file has changed
                end = time.monotonic() + 30
                while json.loads(call(f"{address}/health")[1])["n_reloads"] < 1:
                    assert time.monotonic() < end
                    time.sleep(0.1)
            else:
                assert call(f"{address}/reload", {})[0] == 200
        path.write_bytes(b"damaged")
        status, answer = call(f"{address}/reload", {})
        assert status == 409
        assert "The old model stays" in answer
    finally:
        ended.set()
        for thread in asking:
            thread.join()
    assert len(answers) > 20
    assert {status for status, _ in answers} == {200}
    assert all(json.loads(answer) == expected for _, answer in answers)


def test_a_service_ends_when_it_is_told_to(service, rows):
    address, server, _ = service
    row = [float(value) for value in rows[1]]
    assert call(f"{address}/predict", {"features": row})[0] == 200
    server.send_signal(signal.SIGTERM)
    server.wait(20)
    with pytest.raises(urllib.error.URLError):
        call(f"{address}/health")


@pytest.fixture
def python_with_mlserver():
    """An interpreter that has MLServer, which pins what others need newer."""
    named = os.environ.get("SPINNEY_MLSERVER_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("mlserver") is None:
        pytest.skip("MLServer is not installed; SPINNEY_MLSERVER_PYTHON names a Python")
    return sys.executable


def test_mlserver_answers_in_the_v2_protocol(
    python_with_mlserver, fast, trained, rows, tmp_path
):
    spinney.save(fast, tmp_path / "model.spinney")
    http, grpc, metrics = free_port(), free_port(), free_port()
    (tmp_path / "settings.json").write_text(
        json.dumps(
            {
                "host": "127.0.0.1",
                "http_port": http,
                "grpc_port": grpc,
                "metrics_port": metrics,
                "parallel_workers": 0,
            }
        )
    )
    (tmp_path / "model-settings.json").write_text(
        json.dumps(
            {
                "name": "triage",
                "implementation": "mlserver_runtime.SpinneyRuntime",
                "parameters": {"uri": "./model.spinney"},
            }
        )
    )
    command = "from mlserver.cli import main; main()"
    server = subprocess.Popen(
        [python_with_mlserver, "-c", command, "start", str(tmp_path)],
        env=environment(),
    )
    address = f"http://127.0.0.1:{http}/v2/models/triage"
    some = rows[2:32]
    assert not np.isnan(some).any()
    table = {
        "name": "rows",
        "shape": list(some.shape),
        "datatype": "FP32",
        "data": some.ravel().tolist(),
    }
    try:
        wait_for(f"{address}/ready", server)
        status, answer = call(f"{address}/infer", {"inputs": [table]})
        assert status == 200, answer
        outputs = {one["name"]: one for one in json.loads(answer)["outputs"]}
        own = fast.predict_counted(some)
        assert outputs["label"]["data"] == own[0].tolist()
        assert outputs["n_evaluated"]["data"] == own[1].tolist()
        narrow = {**table, "shape": [len(some) * 2, 3]}
        status, answer = call(f"{address}/infer", {"inputs": [narrow]})
        assert status == 400, answer
        assert "3 features" in answer
    finally:
        server.terminate()
        server.wait(30)
