"""Other engines for the same model, as far as they are installed.

An adapter takes a `Subject` and returns a function from rows to predictions: class
probabilities, or labels. A library is imported only by its adapter.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.cli.conversions import (
    COMPILE_LLEAVES,
    COMPILE_TL2CGEN,
    CannotTakePartError,
    Predict,
    lightgbm_booster,
    run_apart,
    run_catboost,
    run_gtil,
    run_lightgbm,
    run_onedal,
    run_onnx,
    run_sklearn,
    run_tl2cgen,
    run_xgboost,
    to_onedal,
    to_onnx,
    to_treelite,
    xgboost_booster,
)
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
    adapt: Callable[[Subject], Predict]
    dtype: type[np.floating] = np.float32

    @property
    def is_installed(self) -> bool:
        """Whether all that it needs is there; nothing is imported to find out."""
        return all(find_spec(module) is not None for module in self.modules)


# ------------------------------------------------------------------ the originals


def original_of(subject: Subject) -> tuple[Predict, bool]:
    """Return how the library that the model comes from predicts rows.

    Parameters
    ----------
    subject : Subject
        The model.

    Returns
    -------
    predict : callable
        From rows to predictions.
    is_label : bool
        Whether the predictions are labels, not probabilities.

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
    model = _own_model(subject)
    if subject.library == "sklearn":
        with_threads = run_sklearn(model, "predict")
    else:
        run = {"lightgbm": run_lightgbm, "xgboost": run_xgboost}
        with_threads = run.get(subject.library, run_catboost)(model)
    is_label = subject.library in ("sklearn", "catboost")
    return with_threads(subject.n_threads), is_label


def _own_model(subject: Subject) -> Any:
    """Return the model as its own library has it, from the file if need be."""
    if subject.model is not None:
        return subject.model
    path = str(subject.path)
    if subject.library == "catboost":
        from catboost import CatBoostClassifier

        kind = "json" if subject.path.suffix.lower() == ".json" else "cbm"
        return CatBoostClassifier().load_model(path, format=kind)
    if subject.library == "lightgbm":
        import lightgbm

        return lightgbm.Booster(model_file=path)
    import xgboost

    return xgboost.Booster(model_file=path)


# ------------------------------------------------------------------ the others


def _converted(subject: Subject) -> Any:
    """Return the model as converters take it: an estimator, or a booster."""
    model = _own_model(subject)
    return lightgbm_booster(model) if subject.library == "lightgbm" else model


def _onnxruntime(subject: Subject) -> Predict:
    model, n_features = _converted(subject), subject.forest.n_features
    content = to_onnx(subject.library, model, n_features)
    return run_onnx(content)(subject.n_threads)


def _onedal(subject: Subject) -> Predict:
    model = _converted(subject)
    if subject.library == "xgboost":
        model = xgboost_booster(model)
    made = to_onedal(subject.library, model)
    return run_onedal(subject.library, made)(subject.n_threads)


def _gtil(subject: Subject) -> Predict:
    made = to_treelite(subject.library, _own_model(subject))
    return run_gtil(made)(subject.n_threads)


def _tl2cgen(subject: Subject) -> Predict:
    trees, library = subject.scratch("treelite.bin"), subject.scratch("tl2cgen.so")
    to_treelite(subject.library, _own_model(subject)).serialize(trees)
    _compile(COMPILE_TL2CGEN, trees, library)
    return run_tl2cgen(library)(subject.n_threads)


def _lleaves(subject: Subject) -> Predict:
    import lleaves

    text, cache = subject.scratch("lightgbm.txt"), subject.scratch("lleaves.o")
    lightgbm_booster(_own_model(subject)).save_model(text)
    _compile(COMPILE_LLEAVES, text, cache, "0")
    model, n_threads = lleaves.Model(text), subject.n_threads
    model.compile(cache=cache)
    return lambda rows: model.predict(rows, n_jobs=n_threads)


def _compile(code: str, *arguments: str) -> None:
    """Run Python code in a process of its own, which can be given up."""
    run_apart([sys.executable, "-c", code, *arguments], COMPILE_SECONDS)


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
