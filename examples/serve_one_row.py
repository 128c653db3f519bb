"""Serve a model one row at a time, over HTTP, without any web framework.

A service gets one row per request, and most of the time of a small request is spent
outside the trees. So the model file is loaded once, when the service starts, and
`predictor()` makes the predictions: a thin callable that takes a row with strings for
categories and None for missing values, as a list or by column name. Requests are
validated here, with error messages for the caller.

`make_app` returns an ASGI application, the interface that FastAPI, Starlette and
others have in common, so `uvicorn serve_one_row:app` or any other such server runs it.
This script calls it in its own process instead and opens no port. With FastAPI the
same service reads like this:

    model = Model("fraud.spinney")
    app = FastAPI()

    @app.post("/predict")
    def predict(request: dict):
        try:
            return model.predict(request)
        except BadRequest as error:
            raise HTTPException(422, str(error))

Run it: python examples/serve_one_row.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import spinney

LARGEST_BODY = 100_000  # bytes


class BadRequest(Exception):
    """An invalid request, with a message for the caller."""


class Model:
    """A fitted classifier from a file, ready to serve requests."""

    def __init__(self, path):
        self.classifier = spinney.load(path)  # no pickle: loading runs no code
        self.n_features = self.classifier.n_features_in_
        self.predict_row = self.classifier.predictor()
        self.predict_row([None] * self.n_features)  # load kernels

    def predict(self, request):
        """Predict the row of `{"features": ..., "count": false}`.

        The features are a list in the order of training, or an object by column name.
        Numbers are numbers, categories are strings, null is missing.
        """
        row = self.checked_row(request)
        try:
            if not request.get("count", False):
                return {"label": self.predict_row(row).item()}
            # predict_counted also returns the trees evaluated. It validates its input
            # as scikit-learn does, which takes longer than the trees.
            labels, n_evaluated = self.classifier.predict_counted(self.as_frame(row))
        except (TypeError, ValueError) as error:
            # A string where the model takes a number, a missing column: the message
            # says which.
            raise BadRequest(str(error)) from None
        return {"label": labels[0].item(), "n_evaluated": int(n_evaluated[0])}

    def as_frame(self, row):
        """Return a row as `predict` takes it: a data frame of the model's columns."""
        names = self.classifier.feature_names_in_
        values = [row[name] for name in names] if isinstance(row, dict) else row
        columns = {}
        for name, value in zip(names, values, strict=True):
            kind = object if isinstance(value, str) else float  # null becomes NaN
            columns[name] = pd.Series([value], dtype=kind)
        return pd.DataFrame(columns)

    def checked_row(self, request):
        """Return the row of a request, or say what is wrong with it."""
        if not isinstance(request, dict) or "features" not in request:
            msg = 'Send an object with "features": a list of values, or an object.'
            raise BadRequest(msg)
        row = request["features"]
        if isinstance(row, list) and len(row) != self.n_features:
            msg = f'"features" must have {self.n_features} values, got {len(row)}.'
            raise BadRequest(msg)
        if not isinstance(row, (list, dict)):
            msg = '"features" must be a list of values, or an object by column.'
            raise BadRequest(msg)
        for value in row if isinstance(row, list) else row.values():
            is_known = value is None or isinstance(value, (int, float, str))
            if not is_known or isinstance(value, bool):
                msg = f"A feature must be a number, a string or null, got {value!r}."
                raise BadRequest(msg)
        return row


def make_app(path):
    """Return an ASGI application that serves POST /predict from a model file."""
    model = Model(path)

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        status, response = 404, {"error": "There is only POST /predict."}
        if (scope["method"], scope["path"]) == ("POST", "/predict"):
            try:
                status, response = 200, model.predict(await read_json(receive))
            except BadRequest as error:
                status, response = 422, {"error": str(error)}
        body = json.dumps(response).encode()
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
    """Call an ASGI application as a server would; return status and response."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def make_model_file(path):
    """Train a model, fit early exit, and save it; return new rows.

    The rows have missing values and a category column.
    """
    rng = np.random.default_rng(0)
    n_rows = 9000
    age = rng.integers(0, 60, n_rows)
    rows = pd.DataFrame(
        {
            "amount": rng.lognormal(3.0, 1.0, n_rows),
            "account age": np.where(rng.random(n_rows) < 0.1, np.nan, age),
            "channel": pd.Categorical(rng.choice(["phone", "shop", "web"], n_rows)),
            "items": rng.integers(1, 9, n_rows),
        }
    )
    risk = np.log(rows["amount"]) + 1.5 * (rows["channel"] == "web") - age / 20
    fraud = (risk + rng.normal(0.0, 0.5, n_rows) > 3.0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=200, random_state=0)
    model.fit(rows[:3000], fraud[:3000])
    fast = spinney.accelerate(
        model, rows[3000:8000], max_disagreement=0.005, random_state=0
    )
    spinney.save(fast, path)
    return model, rows[8000:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.spinney"
        model, rows = make_model_file(path)
        app = make_app(path)

        named = {"amount": 120.5, "account age": None, "channel": "web", "items": 2}
        for request in (
            {"features": named},
            {"features": list(named.values())},
            {"features": named, "count": True},
            {"features": [120.5, None]},
            {"features": {**named, "amount": "much"}},
        ):
            status, response = post(app, "/predict", json.dumps(request).encode())
            print(status, response)
        print(*post(app, "/predict", b"not json"))

        predict_row = spinney.load(path).predictor()
        requests = rows.astype({"channel": str}).to_dict("records")
        seconds = []
        for row in requests:
            start = perf_counter()
            predict_row(row)
            seconds.append(perf_counter() - start)
        start = perf_counter()
        for k in range(20):
            model.predict(rows[k : k + 1])
        own = (perf_counter() - start) / 20
        print(
            f"one row, median of {len(rows):,}: {1e6 * np.median(seconds):.0f} µs; "
            f"scikit-learn's own predict: {1e6 * own:,.0f} µs"
        )


if __name__ == "__main__":
    main()
