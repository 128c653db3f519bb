"""Serve a model one row at a time, over HTTP, without any web framework.

A service gets one row per request, and most of the time of a small request goes into
what surrounds the trees. So the model file is loaded once, when the service starts,
and `predictor()` answers: a thin callable that checks nothing but type and length of
a row. Everything else that may be wrong with a request is checked here, where there
are words for the caller.

`make_app` returns an ASGI application, the interface that FastAPI, Starlette and
others have in common, so `uvicorn serve_one_row:app` or any other such server runs it.
This script calls it in its own process instead and opens no port. With FastAPI the
same service reads like this:

    model = Model("fraud.spinney")
    app = FastAPI()

    @app.post("/predict")
    def predict(request: dict):
        try:
            return model.answer(request)
        except BadRequest as error:
            raise HTTPException(422, str(error))

Run it: python examples/serve_one_row.py
"""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney

LARGEST_BODY = 100_000  # bytes


class BadRequest(Exception):
    """What the caller has to change."""


class Model:
    """A fitted classifier from a file, ready to answer requests."""

    def __init__(self, path):
        self.classifier = spinney.load(path)  # no pickle: loading runs no code
        self.n_features = self.classifier.n_features_in_
        self.predict_row = self.classifier.predictor()
        self.predict_row(np.zeros(self.n_features, dtype=np.float32))  # load kernels

    def answer(self, request):
        """Answer `{"features": [...], "count": false}`."""
        row = self.checked_row(request)
        if not request.get("count", False):
            return {"label": self.predict_row(row).item()}
        # How many trees it took is told by predict_counted. That one checks its input
        # as scikit-learn does, which takes longer than the trees.
        labels, n_evaluated = self.classifier.predict_counted(row[None, :])
        return {"label": labels[0].item(), "trees_asked": int(n_evaluated[0])}

    def checked_row(self, request):
        """Return the row of a request, or say what is wrong with it."""
        if not isinstance(request, dict) or "features" not in request:
            msg = 'Send an object with "features": a list of numbers.'
            raise BadRequest(msg)
        features = request["features"]
        if not isinstance(features, list) or len(features) != self.n_features:
            msg = f'"features" must be a list of {self.n_features} numbers.'
            raise BadRequest(msg)
        for place, value in enumerate(features):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value):
                msg = f"Feature {place} must be a finite number, got {value!r}."
                raise BadRequest(msg)
        return np.array(features, dtype=np.float32)


def make_app(path):
    """Return an ASGI application that answers POST /predict from a model file."""
    model = Model(path)

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        status, answer = 404, {"error": "There is only POST /predict."}
        if (scope["method"], scope["path"]) == ("POST", "/predict"):
            try:
                status, answer = 200, model.answer(await read_json(receive))
            except BadRequest as error:
                status, answer = 422, {"error": str(error)}
        body = json.dumps(answer).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send(
            {"type": "http.response.start", "status": status, "headers": headers}
        )
        await send({"type": "http.response.body", "body": body})

    return app


async def read_json(receive):
    """Return what the body of a request says."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            msg = f"The request is longer than {LARGEST_BODY:,} bytes."
            raise BadRequest(msg)
    try:
        return json.loads(body)
    except ValueError:
        msg = "The request is not JSON."
        raise BadRequest(msg) from None


def post(app, path, body):
    """Call an ASGI application as a server would; return status and answer."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def make_model_file(path):
    """Train a forest, find out when it may stop, and save that; return new rows."""
    X, y = make_classification(8000, 20, n_informative=8, random_state=0)
    X = X.astype(np.float32)
    forest = RandomForestClassifier(100, max_depth=8, n_jobs=2, random_state=0)
    forest.fit(X[:3000], y[:3000])
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(forest), max_disagreement=0.005, random_state=0
    ).fit(X[3000:7000])
    spinney.save(quick, path)
    return forest, X[7000:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.spinney"
        forest, rows = make_model_file(path)
        app = make_app(path)

        row = rows[0].tolist()
        for request in (
            {"features": row},
            {"features": row, "count": True},
            {"features": row[:-1]},
            {"features": [None, *row[1:]]},
        ):
            status, answer = post(app, "/predict", json.dumps(request).encode())
            print(status, answer)
        print(*post(app, "/predict", b"not json"))

        predict_row = spinney.load(path).predictor()
        seconds = []
        for row in rows:
            start = perf_counter()
            predict_row(row)
            seconds.append(perf_counter() - start)
        forest.n_jobs = 1  # threads only cost time on a single row
        start = perf_counter()
        for row in rows[:20]:
            forest.predict(row[None, :])
        own = (perf_counter() - start) / 20
        print(
            f"one row, median of {len(rows):,}: {1e6 * np.median(seconds):.0f} µs; "
            f"scikit-learn's own predict: {1e6 * own:,.0f} µs"
        )


if __name__ == "__main__":
    main()
