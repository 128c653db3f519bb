"""What a worker does with rows, for the comparison of engines."""

from __future__ import annotations

import numpy as np

N_FEATURES = 20
COLUMNS = [f"f{k}" for k in range(N_FEATURES)]

_loaded = {}


def answer(kind, path, X):
    """Return one number for each row, in the process that calls it."""
    if kind == "reading":
        return X[:, 0]
    if kind == "LightGBM":
        import lightgbm as lgb

        if path not in _loaded:
            _loaded[path] = lgb.Booster(model_file=path)
        return _loaded[path].predict(X, num_threads=1) > 0.5
    from spinney.integrations.portable import PortableModel

    if path not in _loaded:
        _loaded[path] = PortableModel(path)
    return _loaded[path].model.predict(X)


def answer_frame(frame, kind, path):
    """Return one number for each row of a data frame."""
    import pandas as pd

    answers = answer(kind, path, frame[COLUMNS].to_numpy())
    return pd.Series(np.asarray(answers, dtype=np.float64), index=frame.index)


class Answering:
    """What an actor of Ray does with batches."""

    def __init__(self, kind, path):
        self._kind, self._path = kind, path

    def __call__(self, batch):
        """Return a batch with the predictions."""
        X = np.stack([batch[name] for name in COLUMNS], axis=1)
        answers = np.asarray(answer(self._kind, self._path, X), dtype=np.float64)
        return {**batch, "label": answers}
