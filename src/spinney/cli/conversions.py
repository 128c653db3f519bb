"""How a trained model gets into other engines, and how these are called.

Shared by ``spinney bench`` and by the benchmarks of the repository. A function returns
what takes a number of threads and returns the call to be timed. Every library is
imported on use.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Predict = Callable[[NDArray[Any]], Any]
WithThreads = Callable[[int], Predict]

# Run in a process of their own: arguments are the model's file and the file to write.
COMPILE_TL2CGEN = """
import os, sys, tl2cgen, treelite
tl2cgen.export_lib(
    treelite.Model.deserialize(sys.argv[1]), toolchain="gcc", libpath=sys.argv[2],
    params={"parallel_comp": 32}, nthread=os.cpu_count(),
)
"""
# A third argument of 1 compiles for single rows, as lleaves' documentation advises.
COMPILE_LLEAVES = """
import sys, lleaves
model = lleaves.Model(sys.argv[1])
blocks = {"fblocksize": model.num_trees()} if sys.argv[3] == "1" else {}
model.compile(cache=sys.argv[2], **blocks)
"""


class CannotTakePartError(Exception):
    """An engine that cannot run this model; the text says why."""


# ------------------------------------------------------------------ the originals


def lightgbm_booster(model: Any) -> Any:
    """Return the booster of a LightGBM estimator, or the booster that was given."""
    return getattr(model, "booster_", model)


def xgboost_booster(model: Any) -> Any:
    """Return the booster of an XGBoost estimator, or the booster that was given."""
    return model.get_booster() if hasattr(model, "get_booster") else model


def run_sklearn(model: Any, method: str) -> WithThreads:
    """Return calls of a method of a scikit-learn estimator."""

    def with_threads(n_threads: int) -> Predict:
        if "n_jobs" in model.get_params(deep=False):
            model.set_params(n_jobs=n_threads)
        predict: Predict = getattr(model, method)
        return predict

    return with_threads


def run_lightgbm(model: Any) -> WithThreads:
    """Return calls of LightGBM itself."""
    booster = lightgbm_booster(model)
    return lambda n_threads: (
        lambda rows: booster.predict(
            rows, num_threads=n_threads, validate_features=False
        )
    )


def run_xgboost(model: Any) -> WithThreads:
    """Return calls of XGBoost itself, on rows as they lie in memory."""
    booster = xgboost_booster(model)

    def with_threads(n_threads: int) -> Predict:
        booster.set_param({"nthread": n_threads})
        return lambda rows: booster.inplace_predict(rows, validate_features=False)

    return with_threads


def run_catboost(model: Any) -> WithThreads:
    """Return calls of CatBoost itself, which return labels."""
    return lambda n_threads: (
        lambda rows: model.predict(
            rows, prediction_type="Class", thread_count=n_threads
        )
    )


# ------------------------------------------------------------------ the others


def to_onnx(library: str, model: Any, n_features: int) -> bytes:
    """Return a model in ONNX, probabilities as an array rather than as dicts.

    Parameters
    ----------
    library : {"sklearn", "lightgbm", "xgboost"}
        Where the model comes from.
    model : estimator or booster
        The model.
    n_features : int
        Columns that it takes.
    """
    if library == "sklearn":
        from skl2onnx import to_onnx as convert

        row = np.zeros((1, n_features), dtype=np.float32)
        made = convert(model, row, options={"zipmap": False})
    else:
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        inputs = [("X", FloatTensorType([None, n_features]))]
        if library == "lightgbm":
            made = onnxmltools.convert_lightgbm(
                model, initial_types=inputs, zipmap=False
            )
        else:
            made = onnxmltools.convert_xgboost(model, initial_types=inputs)
    content: bytes = made.SerializeToString()
    return content


def run_onnx(content: bytes) -> WithThreads:
    """Return calls of ONNX Runtime for what `to_onnx` has returned."""
    import onnxruntime

    def with_threads(n_threads: int) -> Predict:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n_threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        # To take the probabilities alone spares it the labels.
        return lambda rows: session.run(["probabilities"], {"X": rows})[0]

    return with_threads


def to_treelite(library: str, model: Any) -> Any:
    """Return a model as treelite has it."""
    import treelite

    if library == "sklearn":
        return treelite.sklearn.import_model(model)
    if library == "lightgbm":
        return treelite.frontend.from_lightgbm(lightgbm_booster(model))
    return treelite.frontend.from_xgboost(xgboost_booster(model))


def run_gtil(made: Any) -> WithThreads:
    """Return calls of treelite itself for what `to_treelite` has returned."""
    import treelite

    return lambda n_threads: (
        lambda rows: _columns(treelite.gtil.predict(made, rows, nthread=n_threads))
    )


def run_tl2cgen(library: str) -> WithThreads:
    """Return calls of a library that `COMPILE_TL2CGEN` has made."""
    import tl2cgen

    def with_threads(n_threads: int) -> Predict:
        predictor = tl2cgen.Predictor(library, nthread=n_threads)
        return lambda rows: _columns(predictor.predict(tl2cgen.DMatrix(rows)))

    return with_threads


def to_onedal(library: str, model: Any) -> Any:
    """Return a model as oneDAL has it."""
    import daal4py

    given = to_treelite(library, model) if library == "sklearn" else model
    return daal4py.mb.convert_model(given)


def run_onedal(library: str, made: Any) -> WithThreads:
    """Return calls of oneDAL for what `to_onedal` has returned."""
    import daal4py

    # A two-class forest becomes a regressor of the second class's probability.
    predict: Predict = made.predict if library == "sklearn" else made.predict_proba

    def with_threads(n_threads: int) -> Predict:
        daal4py.daalinit(n_threads)
        return predict

    return with_threads


def _columns(answers: Any) -> Any:
    """Drop treelite's axis of targets, of which there is one."""
    return answers.reshape(len(answers), -1)


# ------------------------------------------------------------------ compilers


def run_apart(command: Sequence[str], limit: float) -> None:
    """Run a command in a process of its own, which is given up after some time.

    Parameters
    ----------
    command : sequence of str
        What to run.
    limit : float
        Seconds after which it is stopped, with all processes that it started.

    Raises
    ------
    CompilerTimeoutError
        If it takes longer.
    CannotTakePartError
        If it fails.
    """
    child = subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, complaint = child.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(child.pid, signal.SIGKILL)  # the compiler too that it has started
        child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise CompilerTimeoutError(limit) from error
        raise
    if child.returncode != 0:
        lines = complaint.strip().splitlines() or [f"status {child.returncode}"]
        msg = f"compiling failed: {lines[-1]}"
        raise CannotTakePartError(msg)


class CompilerTimeoutError(CannotTakePartError):
    """A compiler that was given up."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"compiling takes longer than {limit:.0f} s")
