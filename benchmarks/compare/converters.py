"""Adapters for engines that take over a model from the library that trained it."""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.compiling import (
    LLEAVES,
    GaveUp,
    compiled,
    converted,
    this_module,
)
from benchmarks.compare.engines import Engine, Skip, peer
from benchmarks.compare.models import Trained


@peer("ONNX Runtime", "onnxruntime")
def _onnxruntime(trained: Trained) -> Engine:
    import onnxruntime

    model, seconds = converted(
        trained.folder / "onnx.bin",
        lambda: _to_onnx(trained).SerializeToString(),
        lambda content, path: path.write_bytes(content),
        lambda path: path.read_bytes(),
    )

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n_threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        # Asking for the probabilities alone spares it the labels.
        return lambda rows: session.run(["probabilities"], {"X": rows})[0]

    return Engine(
        with_threads,
        call="InferenceSession.run(['probabilities'], X)",
        prepare_seconds=seconds,
    )


def _to_onnx(trained: Trained) -> Any:
    """Return the model in ONNX, probabilities as an array rather than as dicts."""
    for name in ("onnxmltools", "skl2onnx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if trained.library == "sklearn":
        import skl2onnx

        row = np.zeros((1, trained.n_features), dtype=np.float32)
        return skl2onnx.to_onnx(trained.estimator, row, options={"zipmap": False})
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [("X", FloatTensorType([None, trained.n_features]))]
    if trained.library == "lightgbm":
        return onnxmltools.convert_lightgbm(
            trained.estimator, initial_types=inputs, zipmap=False
        )
    return onnxmltools.convert_xgboost(trained.estimator, initial_types=inputs)


@peer("oneDAL", "scikit-learn-intelex")
def _onedal(trained: Trained) -> Engine:
    import daal4py

    forest = trained.library == "sklearn"
    model, seconds = converted(
        trained.folder / "onedal.pickle",
        lambda: daal4py.mb.convert_model(
            _to_treelite(trained) if forest else trained.estimator
        ),
        _pickle,
        lambda path: pickle.loads(path.read_bytes()),
    )
    # A two-class forest becomes a regressor of the second class's probability.
    ask = model.predict if forest else model.predict_proba

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        daal4py.daalinit(n_threads)
        return ask

    return Engine(
        with_threads,
        call="daal4py.mb.convert_model(model).predict_proba(X)",
        prepare_seconds=seconds,
    )


def _to_treelite(trained: Trained) -> Any:
    import treelite

    if trained.library == "sklearn":
        return treelite.sklearn.import_model(trained.estimator)
    if trained.library == "lightgbm":
        return treelite.frontend.from_lightgbm(trained.estimator.booster_)
    return treelite.frontend.from_xgboost(trained.estimator.get_booster())


def _columns(answers: NDArray) -> NDArray:
    """Drop treelite's axis of targets, of which there is one."""
    return answers.reshape(len(answers), -1)


@peer("treelite GTIL", "treelite")
def _gtil(trained: Trained) -> Engine:
    import treelite

    model = _to_treelite(trained)

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        return lambda rows: _columns(
            treelite.gtil.predict(model, rows, nthread=n_threads)
        )

    return Engine(with_threads, call="treelite.gtil.predict(model, X, nthread=threads)")


@peer("tl2cgen", "tl2cgen")
def _tl2cgen(trained: Trained) -> Engine:
    import tl2cgen

    checkpoint = trained.folder / "treelite.bin"
    _to_treelite(trained).serialize(str(checkpoint))
    library = trained.folder / "tl2cgen.so"
    seconds = _compile(trained, this_module("tl2cgen", checkpoint, library), library)

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        predictor = tl2cgen.Predictor(str(library), nthread=n_threads)
        return lambda rows: _columns(predictor.predict(tl2cgen.DMatrix(rows)))

    # It compares in the type of the thresholds, and converts rows of another type.
    precise = trained.library != "xgboost"
    return Engine(
        with_threads,
        call="Predictor.predict(DMatrix(X)), compiled by gcc",
        dtype=np.float64 if precise else np.float32,
        prepare_seconds=seconds,
    )


def _compile(trained: Trained, command: list[str], out: Path) -> float:
    try:
        return compiled(command, out, trained.compile_seconds)
    except GaveUp as error:
        raise Skip(str(error)) from error


@peer("lleaves", "lleaves", ("lightgbm",))
def _lleaves(trained: Trained) -> Engine:
    return _lleaves_engine(trained, one_block=False)


@peer("lleaves single row", "lleaves", ("lightgbm",))
def _lleaves_row(trained: Trained) -> Engine:
    """The same, compiled as its documentation advises for single rows."""
    return _lleaves_engine(trained, one_block=True)


def _lleaves_engine(trained: Trained, *, one_block: bool) -> Engine:
    import lleaves
    from lleaves.lleaves import get_entry_func_type

    text = trained.folder / "lightgbm.txt"
    trained.estimator.booster_.save_model(text)
    name = "lleaves-row" if one_block else "lleaves"
    binary = trained.folder / f"{name}.o"
    python = os.environ.get("SPINNEY_LLEAVES_PYTHON", sys.executable)
    command = [python, "-c", LLEAVES, str(text), str(binary), str(int(one_block))]
    seconds = _compile(trained, command, binary)
    library = trained.folder / f"{name}.so"
    subprocess.run(["gcc", "-shared", "-o", str(library), str(binary)], check=True)
    # Its own loader needs the old llvmlite too; the entry point of the binary is
    # documented, and from there on everything is lleaves' own.
    entry = ctypes.CDLL(str(library)).forest_root
    model = lleaves.Model(str(text))
    model._c_entry_func = get_entry_func_type(True)(
        ctypes.cast(entry, ctypes.c_void_p).value
    )
    model.is_compiled = True
    return Engine(
        lambda n_threads: lambda rows: model.predict(rows, n_jobs=n_threads),
        call="Model.predict(X, n_jobs=threads)"
        + (", compiled with fblocksize=num_trees" if one_block else ""),
        dtype=np.float64,
        only_batch=1 if one_block else None,
        max_threads=1 if one_block else None,
        prepare_seconds=seconds,
    )


@peer("YDF", "ydf", ("sklearn",))
def _ydf(trained: Trained) -> Engine:
    import ydf

    ydf.verbose(0)
    model, seconds = converted(
        trained.folder / "ydf",
        lambda: ydf.from_sklearn(trained.estimator),
        lambda model, path: model.save(str(path)),
        lambda path: ydf.load_model(str(path)),
    )

    def with_threads(n_threads: int) -> Callable[[NDArray], NDArray]:
        return lambda rows: model.predict({"features": rows}, num_threads=n_threads)

    return Engine(
        with_threads,
        call="from_sklearn(model).predict(X, num_threads=threads)",
        prepare_seconds=seconds,
    )


@peer("nvForest", ("nvforest-cu13", "nvforest-cu12"))
def _nvforest(trained: Trained) -> Engine:
    import nvforest

    model = nvforest.load_from_treelite_model(_to_treelite(trained), device="cpu")
    # Its own search for the best layout and chunk size; longer finds nothing better.
    model = model.optimize(batch_size=1000, unique_batches=2, timeout=0.05)
    # It has no option for threads: the limit on OpenMP that holds for the whole
    # process while a number of threads is measured also holds for it.
    return Engine(
        lambda n_threads: model.predict_proba,
        call="load_from_treelite_model(..., device='cpu').optimize().predict_proba(X)",
        dtype=np.float32 if trained.library == "xgboost" else np.float64,
    )


@peer("Timber", "timber-compiler")
def _timber(trained: Trained) -> Engine:
    from timber.runtime.predictor import TimberPredictor

    if trained.library == "sklearn":
        model = trained.folder / "timber.pkl"
        _pickle(trained.estimator, model)
    elif trained.library == "lightgbm":
        model = trained.folder / "lightgbm.txt"
        trained.estimator.booster_.save_model(model)
    else:
        model = trained.folder / "xgboost.json"
        trained.estimator.save_model(model)
    library = trained.folder / "timber.so"
    command = this_module(trained.library, model, library)
    seconds = _compile(trained, command, library)
    n_outputs = 1 if trained.n_classes == 2 else trained.n_classes
    predictor = TimberPredictor(library, trained.n_features, n_outputs, 0)
    return Engine(
        lambda n_threads: predictor.predict,
        call="TimberPredictor.predict(X), compiled by gcc",
        max_threads=1,
        prepare_seconds=seconds,
    )


def _pickle(estimator: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(estimator))
