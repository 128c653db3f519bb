"""Serve a model over HTTP with FastAPI: metrics, reload, and graceful shutdown.

`make_app` returns the application. POST /predict predicts one row with `predictor()`,
which checks a share of the rows against all trees (`spinney.Monitor`). GET /metrics
is for Prometheus: a histogram of latency, one of trees evaluated, and the monitor of
the bound. POST /reload, or a new file under the same path, swaps the model: requests
in flight finish with the model they started with, and none is dropped. On SIGTERM
uvicorn stops accepting, finishes the requests in flight, and exits.

Run it: python examples/serve_http.py model.spinney --port 8000
It listens on 127.0.0.1 only. It needs fastapi, uvicorn and prometheus_client.
"""

import argparse
import asyncio
import math
import os
import sys
import threading
from contextlib import asynccontextmanager, suppress
from time import perf_counter

import numpy as np

import spinney

# Rows whose trees are counted for the metrics; counting takes a second evaluation.
SHARE_COUNTED = 0.01
SECONDS_BETWEEN_LOOKS = 1.0
BUCKETS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1, 1.0)


class Model:
    """One version of the model, unchanged while requests use it."""

    def __init__(self, path):
        self.stamp = _stamp(path)
        self.classifier = spinney.load(path)  # no pickle: loading runs no code
        self.n_features = int(self.classifier.n_features_in_)
        self.monitor = spinney.Monitor(self.classifier, share=0.01)
        self.predict_row = self.monitor.predictor()
        self.predict_row(np.zeros(self.n_features, dtype=np.float32))  # load kernels

    def row(self, features):
        """Return the row of a request, or say what is wrong with it."""
        if not isinstance(features, list) or len(features) != self.n_features:
            msg = f'Send {{"features": [...]}} with {self.n_features} numbers.'
            raise ValueError(msg)
        for place, value in enumerate(features):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (is_number and math.isfinite(value)):
                msg = f"Feature {place} must be a finite number or null, got {value!r}."
                raise ValueError(msg)
        numbers = [math.nan if value is None else value for value in features]
        return np.array(numbers, dtype=np.float32)


class Service:
    """The current model, and how a new one replaces it."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self.model = Model(self.path)
        self.n_reloads = self.n_failed_reloads = 0
        self._lock = threading.Lock()

    def reload(self):
        """Load the file again; if it is invalid, the old model stays."""
        with self._lock:
            try:
                new = Model(self.path)
            except (OSError, spinney.SpinneyError):
                self.n_failed_reloads += 1
                raise
            self.model = new  # one assignment: a request sees the old or the new one
            self.n_reloads += 1

    async def watch(self):
        """Reload the file when it is replaced."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            with suppress(OSError, spinney.SpinneyError):
                if _stamp(self.path) != self.model.stamp:
                    await asyncio.to_thread(self.reload)


def _stamp(path):
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


def make_app(path):
    """Return the application for a model file."""
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.responses import PlainTextResponse
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

    service = Service(path)
    registry = CollectorRegistry()
    latency = Histogram(
        "spinney_latency_seconds",
        "Time of a request.",
        buckets=BUCKETS,
        registry=registry,
    )
    n_trees = service.model.classifier.forest_.n_trees
    evaluated = Histogram(
        "spinney_trees_evaluated",
        "Trees evaluated, for a random share of the rows.",
        buckets=[*np.unique(np.geomspace(1, n_trees, 12).astype(int)).tolist()],
        registry=registry,
    )
    refused = Counter("spinney_refused_total", "Invalid requests.", registry=registry)
    rng = np.random.default_rng()

    @asynccontextmanager
    async def lifespan(app):
        watching = asyncio.create_task(service.watch())
        yield
        watching.cancel()

    app = FastAPI(lifespan=lifespan)
    app.state.service = service

    @app.post("/predict")
    async def predict(request: Request):
        model = service.model
        start = perf_counter()
        try:
            body = await request.json()
            row = model.row(body.get("features") if isinstance(body, dict) else None)
        except ValueError as error:  # invalid JSON, too
            refused.inc()
            raise HTTPException(422, str(error)) from None
        label = model.predict_row(row)
        if rng.random() < SHARE_COUNTED:
            _, counts = model.classifier.predict_counted(row[None, :])
            evaluated.observe(float(counts[0]))
        latency.observe(perf_counter() - start)
        return {"label": label.item() if hasattr(label, "item") else label}

    @app.post("/reload")
    async def reload():
        try:
            await asyncio.to_thread(service.reload)
        except (OSError, spinney.SpinneyError) as error:
            raise HTTPException(409, f"The old model stays: {error}") from None
        return {"n_reloads": service.n_reloads}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics():
        ours = generate_latest(registry).decode()
        return ours + service.model.monitor.to_prometheus("spinney_monitor")

    @app.get("/health")
    async def health():
        return {"n_features": service.model.n_features, "n_reloads": service.n_reloads}

    return app


def main():
    parser = argparse.ArgumentParser(description="Serve a model file over HTTP.")
    parser.add_argument("model", help="file that spinney.save has written")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    try:
        import fastapi
        import prometheus_client
        import uvicorn
    except ImportError as error:
        sys.exit(
            f"{error.name} is not installed: "
            "python -m pip install fastapi uvicorn prometheus_client"
        )
    del fastapi, prometheus_client
    app = make_app(arguments.model)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=arguments.port,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )


if __name__ == "__main__":
    main()
