"""Other engines for the same model, as far as they are installed.

An adapter takes a `Subject` and returns a function from rows to answers: class
probabilities, or labels. A library is imported only by its adapter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest

# A compiler that takes longer than this is given up.
COMPILE_SECONDS = 60.0
# By module; models of all others are scikit-learn's.
LIBRARIES = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn",
}

Ask = Callable[[NDArray[Any]], Any]


class CannotTakePartError(Exception):
    """An engine that cannot run this model; the text says why."""


@dataclass
class Subject:
    """A model to be run by other engines.

    Parameters
    ----------
    model : object
        The model as its library has it, or None if there is only a file.
    path : path
        The file it came from.
    library : str
        Module of the library that the model was trained with; empty if unknown.
    forest : Forest
        The same model as spinney reads it.
    n_threads : int
        Threads that an engine may use.
    """

    model: Any
    path: Path
    library: str
    forest: Forest
    n_threads: int
    folder: Any = field(default_factory=tempfile.TemporaryDirectory, init=False)

    @property
    def library_name(self) -> str:
        """What people call the library."""
        return LIBRARIES.get(self.library, "the original")

    def scratch(self, name: str) -> str:
        """Return the path of a file that is removed in the end."""
        return str(Path(self.folder.name) / name)

    def labels(self, answers: Any) -> NDArray[Any]:
        """Return the labels that class probabilities, or class numbers, mean."""
        classes = self.forest.classes_
        assert classes is not None
        found = np.asarray(answers)
        found = found.reshape(len(found), -1)
        if found.shape[1] > 1:
            return classes[found.argmax(axis=1)]
        if len(classes) > 2:
            return classes[found[:, 0].astype(np.intp)]
        return classes[(found[:, 0] > 0.5).astype(np.intp)]


def library_of(forest: Forest, model: Any) -> str:
    """Return the module of the library that a model was trained with.

    Parameters
    ----------
    forest : Forest
        The model as spinney reads it.
    model : object
        The model itself, None if there is only a file.
    """
    for module, name in LIBRARIES.items():
        if forest.source.startswith(name):
            return module
    return "" if model is None else "sklearn"


@dataclass(frozen=True)
class Peer:
    """An engine by name, what it needs, and how a model gets into it.

    Parameters
    ----------
    name : str
        What people call it.
    modules : tuple of str
        What must be installed.
    libraries : tuple of str
        Libraries whose models it takes.
    adapt : callable
        Makes the function that is timed.
    dtype : type
        Type of rows that it takes without converting them.
    """

    name: str
    modules: tuple[str, ...]
    libraries: tuple[str, ...]
    adapt: Callable[[Subject], Ask]
    dtype: type[np.floating] = np.float32

    @property
    def is_installed(self) -> bool:
        """Whether all that it needs is there; nothing is imported to find out."""
        return all(find_spec(module) is not None for module in self.modules)


# ------------------------------------------------------------------ the originals


def original_of(subject: Subject) -> tuple[Ask, bool]:
    """Return how the library that the model comes from answers rows.

    Parameters
    ----------
    subject : Subject
        The model.

    Returns
    -------
    ask : callable
        From rows to answers.
    is_label : bool
        Whether the answers are labels, not probabilities.

    Raises
    ------
    CannotTakePartError
        If that library is not installed, or it is not known which it is.
    """
    if not subject.library:
        msg = "the file holds the trees only, not the model that they come from"
        raise CannotTakePartError(msg)
    if find_spec(subject.library) is None:
        msg = "not installed"
        raise CannotTakePartError(msg)
    if subject.library == "sklearn":
        return _sklearn(subject), True
    if subject.library == "catboost":
        return _catboost(subject), True
    return {"lightgbm": _lightgbm, "xgboost": _xgboost}[subject.library](subject), False


def _sklearn(subject: Subject) -> Ask:
    model = subject.model
    if "n_jobs" in model.get_params(deep=False):
        model.set_params(n_jobs=subject.n_threads)
    return model.predict


def _lightgbm(subject: Subject) -> Ask:
    booster = _lightgbm_booster(subject)
    n_threads = subject.n_threads
    return lambda rows: booster.predict(
        rows, num_threads=n_threads, validate_features=False
    )


def _lightgbm_booster(subject: Subject) -> Any:
    from lightgbm import Booster

    if subject.model is None:
        return Booster(model_file=str(subject.path))
    return getattr(subject.model, "booster_", subject.model)


def _xgboost(subject: Subject) -> Ask:
    booster = _xgboost_booster(subject)
    booster.set_param({"nthread": subject.n_threads})
    return lambda rows: booster.inplace_predict(rows, validate_features=False)


def _xgboost_booster(subject: Subject) -> Any:
    from xgboost import Booster

    model = subject.model
    if model is None:
        return Booster(model_file=str(subject.path))
    return model.get_booster() if hasattr(model, "get_booster") else model


def _catboost(subject: Subject) -> Ask:
    from catboost import CatBoostClassifier

    model, n_threads = subject.model, subject.n_threads
    if model is None:
        kind = "json" if subject.path.suffix.lower() == ".json" else "cbm"
        model = CatBoostClassifier().load_model(str(subject.path), format=kind)
    return lambda rows: model.predict(
        rows, prediction_type="Class", thread_count=n_threads
    )


# ------------------------------------------------------------------ the others


def _onnxruntime(subject: Subject) -> Ask:
    import onnxruntime

    content = _to_onnx(subject).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = subject.n_threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    # Asking for the probabilities alone spares it the labels.
    return lambda rows: session.run(["probabilities"], {"X": rows})[0]


def _to_onnx(subject: Subject) -> Any:
    """Return the model in ONNX, probabilities as an array rather than as dicts."""
    n_features = subject.forest.n_features
    if subject.library == "sklearn":
        from skl2onnx import to_onnx

        row = np.zeros((1, n_features), dtype=np.float32)
        return to_onnx(subject.model, row, options={"zipmap": False})
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [("X", FloatTensorType([None, n_features]))]
    if subject.library == "lightgbm":
        return onnxmltools.convert_lightgbm(
            _lightgbm_booster(subject), initial_types=inputs, zipmap=False
        )
    return onnxmltools.convert_xgboost(
        subject.model or _xgboost_booster(subject), initial_types=inputs
    )


def _onedal(subject: Subject) -> Ask:
    import daal4py

    is_forest = subject.library == "sklearn"
    if is_forest:
        given = _to_treelite(subject)
    elif subject.library == "lightgbm":
        given = _lightgbm_booster(subject)
    else:
        given = _xgboost_booster(subject)
    model = daal4py.mb.convert_model(given)
    daal4py.daalinit(subject.n_threads)
    # A two-class forest becomes a regressor of the second class's probability.
    return model.predict if is_forest else model.predict_proba


def _to_treelite(subject: Subject) -> Any:
    import treelite

    if subject.library == "sklearn":
        return treelite.sklearn.import_model(subject.model)
    if subject.library == "lightgbm":
        return treelite.frontend.from_lightgbm(_lightgbm_booster(subject))
    return treelite.frontend.from_xgboost(_xgboost_booster(subject))


def _gtil(subject: Subject) -> Ask:
    import treelite

    model, n_threads = _to_treelite(subject), subject.n_threads
    return lambda rows: treelite.gtil.predict(model, rows, nthread=n_threads)


def _tl2cgen(subject: Subject) -> Ask:
    import tl2cgen

    trees, library = subject.scratch("treelite.bin"), subject.scratch("tl2cgen.so")
    _to_treelite(subject).serialize(trees)
    _compile(
        "import sys, tl2cgen, treelite\n"
        "model = treelite.Model.deserialize(sys.argv[1])\n"
        "tl2cgen.export_lib(model, toolchain='gcc', libpath=sys.argv[2],\n"
        "                   params={'parallel_comp': 32})\n",
        trees,
        library,
    )
    predictor = tl2cgen.Predictor(library, nthread=subject.n_threads)
    return lambda rows: predictor.predict(tl2cgen.DMatrix(rows))


def _lleaves(subject: Subject) -> Ask:
    import lleaves

    text, cache = subject.scratch("lightgbm.txt"), subject.scratch("lleaves.o")
    _lightgbm_booster(subject).save_model(text)
    _compile(
        "import sys, lleaves\nlleaves.Model(sys.argv[1]).compile(cache=sys.argv[2])\n",
        text,
        cache,
    )
    model, n_threads = lleaves.Model(text), subject.n_threads
    model.compile(cache=cache)
    return lambda rows: model.predict(rows, n_jobs=n_threads)


def _compile(code: str, *arguments: str) -> None:
    """Run Python code in a process of its own, which can be given up."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, complaint = child.communicate(timeout=COMPILE_SECONDS)
    except BaseException as error:
        os.killpg(child.pid, signal.SIGKILL)  # the compiler too that it has started
        child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            msg = f"compiling takes longer than {COMPILE_SECONDS:.0f} s"
            raise CannotTakePartError(msg) from error
        raise
    if child.returncode != 0:
        lines = complaint.strip().splitlines() or [f"status {child.returncode}"]
        msg = f"compiling failed: {lines[-1]}"
        raise CannotTakePartError(msg)


BOOSTERS = ("lightgbm", "xgboost")
EVERY = ("sklearn", *BOOSTERS)
PEERS = (
    Peer("ONNX Runtime", ("onnxruntime", "skl2onnx"), ("sklearn",), _onnxruntime),
    Peer("ONNX Runtime", ("onnxruntime", "onnxmltools"), BOOSTERS, _onnxruntime),
    Peer("treelite GTIL", ("treelite",), EVERY, _gtil),
    Peer("tl2cgen", ("treelite", "tl2cgen"), EVERY, _tl2cgen),
    Peer("lleaves", ("lleaves",), ("lightgbm",), _lleaves, np.float64),
    Peer("oneDAL", ("daal4py", "treelite"), ("sklearn",), _onedal),
    Peer("oneDAL", ("daal4py",), BOOSTERS, _onedal),
)
