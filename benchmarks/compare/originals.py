"""Adapters for spinney and for the libraries that models come from."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.engines import Engine, Skip, peer
from benchmarks.compare.models import Trained
from spinney.cli.conversions import run_lightgbm, run_sklearn, run_xgboost


@peer("spinney", "spinney", ours=True)
def _spinney(trained: Trained) -> Engine:
    import spinney

    forest = spinney.read_model(trained.estimator)
    return Engine(
        lambda n_threads: lambda rows: forest.predict_proba(rows, n_jobs=n_threads),
        call="Forest.predict_proba(X, n_jobs=threads), rows checked on every call",
        labels=forest.predict,
    )


@peer("spinney predictor()", "spinney", ours=True)
def _spinney_row(trained: Trained) -> Engine:
    import spinney

    predict = spinney.read_model(trained.estimator).predictor()
    return Engine(
        lambda n_threads: predict,
        call="Forest.predictor()(row), type and length checked",
        shape=lambda rows: rows[0],
        returns="label",
        only_batch=1,
        max_threads=1,
    )


@peer("scikit-learn", "scikit-learn", ("sklearn",))
def _sklearn(trained: Trained) -> Engine:
    return Engine(
        run_sklearn(trained.estimator, "predict_proba"),
        call="predict_proba(X), n_jobs=threads",
    )


@peer("LightGBM", "lightgbm", ("lightgbm",))
def _lightgbm(trained: Trained) -> Engine:
    return Engine(
        run_lightgbm(trained.estimator),
        call="Booster.predict(X, num_threads=threads)",
    )


@peer("LightGBM single row", "lightgbm", ("lightgbm",))
def _lightgbm_row(trained: Trained) -> Engine:
    """The single-row call of LightGBM's C library, which Python does not wrap."""
    from lightgbm import basic

    booster = trained.estimator.booster_
    n_outputs = 1 if trained.n_classes == 2 else trained.n_classes
    row = np.empty(trained.n_features, dtype=np.float32)
    out = np.empty((1, n_outputs), dtype=np.float64)
    out_len = ctypes.c_int64()
    config = ctypes.c_void_p()
    float32, normal = 0, 0  # C_API_DTYPE_FLOAT32, C_API_PREDICT_NORMAL
    status = basic._LIB.LGBM_BoosterPredictForMatSingleRowFastInit(
        booster._handle,
        ctypes.c_int(normal),
        ctypes.c_int(0),
        ctypes.c_int(-1),
        ctypes.c_int(float32),
        ctypes.c_int32(trained.n_features),
        b"num_threads=1",
        ctypes.byref(config),
    )
    if status != 0:
        msg = "LGBM_BoosterPredictForMatSingleRowFastInit refused the model"
        raise Skip(msg)
    predict_row = basic._LIB.LGBM_BoosterPredictForMatSingleRowFast
    arguments = (
        config,
        ctypes.c_void_p(row.ctypes.data),
        ctypes.byref(out_len),
        ctypes.c_void_p(out.ctypes.data),
    )

    def predict(given: NDArray[np.float32]) -> NDArray[np.float64]:
        row[:] = given
        predict_row(*arguments)
        return out

    return Engine(
        lambda n_threads: predict,
        call="LGBM_BoosterPredictForMatSingleRowFast through ctypes, buffers reused",
        shape=lambda rows: rows[0],
        only_batch=1,
        max_threads=1,
        is_shareable=False,
    )


@peer("XGBoost DMatrix", ("xgboost-cpu", "xgboost"), ("xgboost",))
def _xgboost(trained: Trained) -> Engine:
    from xgboost import DMatrix

    booster = trained.estimator.get_booster()

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        booster.set_param({"nthread": n_threads})
        return lambda rows: booster.predict(
            DMatrix(rows, nthread=n_threads), validate_features=False
        )

    return Engine(with_threads, call="Booster.predict(DMatrix(X)), nthread=threads")


@peer("XGBoost", ("xgboost-cpu", "xgboost"), ("xgboost",))
def _xgboost_inplace(trained: Trained) -> Engine:
    return Engine(
        run_xgboost(trained.estimator),
        call="Booster.inplace_predict(X), nthread=threads",
    )
