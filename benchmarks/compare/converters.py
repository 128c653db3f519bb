"""Adapters for engines that take over a model from the library that trained it."""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.compiling import COMPILE_TIMBER, compiled, converted
from benchmarks.compare.engines import Engine, Skip, peer
from benchmarks.compare.models import Trained
from spinney.cli.conversions import (
    COMPILE_LLEAVES,
    COMPILE_TL2CGEN,
    CannotTakePartError,
    run_gtil,
    run_onedal,
    run_onnx,
    run_tl2cgen,
    to_onedal,
    to_onnx,
    to_treelite,
)


@peer("ONNX Runtime", "onnxruntime")
def _onnxruntime(trained: Trained) -> Engine:
    # Missing, it is to be missed before a conversion that may take a minute.
    import onnxruntime  # noqa: F401

    for name in ("onnxmltools", "skl2onnx"):
        logging.getLogger(name).setLevel(logging.ERROR)
    content, seconds = converted(
        trained.folder / "onnx.bin",
        lambda: to_onnx(trained.library, trained.estimator, trained.n_features),
        lambda content, path: path.write_bytes(content),
        lambda path: path.read_bytes(),
    )
    return Engine(
        run_onnx(content),
        call="InferenceSession.run(['probabilities'], X)",
        prepare_seconds=seconds,
    )


@peer("oneDAL", "scikit-learn-intelex")
def _onedal(trained: Trained) -> Engine:
    model, seconds = converted(
        trained.folder / "onedal.pickle",
        lambda: to_onedal(trained.library, trained.estimator),
        _pickle,
        lambda path: pickle.loads(path.read_bytes()),
    )
    return Engine(
        run_onedal(trained.library, model),
        call="daal4py.mb.convert_model(model).predict_proba(X)",
        prepare_seconds=seconds,
    )


@peer("treelite GTIL", "treelite")
def _gtil(trained: Trained) -> Engine:
    return Engine(
        run_gtil(to_treelite(trained.library, trained.estimator)),
        call="treelite.gtil.predict(model, X, nthread=threads)",
    )


@peer("tl2cgen", "tl2cgen")
def _tl2cgen(trained: Trained) -> Engine:
    checkpoint = trained.folder / "treelite.bin"
    to_treelite(trained.library, trained.estimator).serialize(str(checkpoint))
    library = trained.folder / "tl2cgen.so"
    seconds = _compile(trained, COMPILE_TL2CGEN, [checkpoint, library], library)
    # It compares in the type of the thresholds, and converts rows of another type.
    precise = trained.library != "xgboost"
    return Engine(
        run_tl2cgen(str(library)),
        call="Predictor.predict(DMatrix(X)), compiled by gcc",
        dtype=np.float64 if precise else np.float32,
        prepare_seconds=seconds,
    )


def _compile(
    trained: Trained,
    code: str,
    arguments: Sequence[Any],
    out: Path,
    python: str = sys.executable,
) -> float:
    """Run Python code that makes the file `out`; return the seconds that it took."""
    command = [python, "-c", code, *map(str, arguments)]
    try:
        return compiled(command, out, trained.compile_seconds)
    except CannotTakePartError as error:
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
    # It may live in another Python than spinney: it needs an old llvmlite.
    python = os.environ.get("SPINNEY_LLEAVES_PYTHON", sys.executable)
    arguments = (text, binary, int(one_block))
    seconds = _compile(trained, COMPILE_LLEAVES, arguments, binary, python)
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

    model = nvforest.load_from_treelite_model(
        to_treelite(trained.library, trained.estimator), device="cpu"
    )
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
    arguments = (trained.library, model, library)
    seconds = _compile(trained, COMPILE_TIMBER, arguments, library)
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
