"""Estimators of scikit-learn around the trees, taken apart for a file.

These are the steps before a model (scalers, imputers, encoders), and models made of
models (voting, stacking, calibration), with what is linear inside them.

A step is stored as the name of its class, one of those in `CLASSES`, and what fitting
has left on it: numbers, texts, arrays, lists of these, and other steps. Nothing else is
stored and nothing else is made: loading runs no code but that of these classes. The
loaded step *is* one of scikit-learn, so it transforms rows to the same last bit. What
is not known is refused, or carried by skops on request (see `carried`).
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import warnings
from collections import UserList
from importlib import import_module
from typing import Any

import numpy as np

from spinney.errors import FormatError, SpinneyWarning
from spinney.persistence.carried import carried, from_carried, is_carrying, type_name
from spinney.persistence.container import CODES, Arrays, parse_json
from spinney.persistence.fields import refuse_leftovers
from spinney.persistence.kinds import put_together, taken_apart

CLASSES = {
    "sklearn.calibration": (
        "CalibratedClassifierCV",
        "_CalibratedClassifier",
        "_SigmoidCalibration",
        "_TemperatureScaling",
    ),
    "sklearn.compose": ("ColumnTransformer", "TransformedTargetRegressor"),
    "sklearn.ensemble": (
        "StackingClassifier",
        "StackingRegressor",
        "VotingClassifier",
        "VotingRegressor",
    ),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.impute": ("MissingIndicator", "SimpleImputer"),
    "sklearn.isotonic": ("IsotonicRegression",),
    "sklearn.linear_model": (
        "ElasticNet",
        "Lasso",
        "LinearRegression",
        "LogisticRegression",
        "LogisticRegressionCV",
        "Ridge",
        "RidgeCV",
        "RidgeClassifier",
    ),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": (
        "Binarizer",
        "FunctionTransformer",
        "KBinsDiscretizer",
        "LabelBinarizer",
        "LabelEncoder",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "PolynomialFeatures",
        "PowerTransformer",
        "QuantileTransformer",
        "RobustScaler",
        "StandardScaler",
        "TargetEncoder",
    ),
}
MODULE_OF = {name: module for module, names in CLASSES.items() for name in names}

# Names of NumPy types that a parameter such as `dtype` may be.
TYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "object",
    "uint8",
)
TEXT_TYPE = re.compile(r"str([0-9]{1,9})")  # in bits, 32 for each letter
# Functions of NumPy that a `FunctionTransformer` may apply.
FUNCTIONS = (
    "abs",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "negative",
    "reciprocal",
    "sqrt",
    "square",
)
# Deeper than any pipeline of pipelines, and than any model of models.
MAX_DEPTH = 60
MAX_MODELS_DEEP = 8


def steps_to_arrays(name: str, steps: Any) -> Arrays:
    """Return a fitted transformer as arrays.

    Parameters
    ----------
    name : str
        Beginning of the names of the arrays.
    steps : transformer
        Fitted, with whatever is inside it.

    Raises
    ------
    TypeError
        If it, or something inside it, is of an unknown kind.
    """
    from sklearn import __version__

    writer = _Writer(name)
    document = {"sklearn": __version__, "steps": writer.encoded(steps)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        msg = f"The steps before the model hold a string that is not Unicode: {error}."
        raise ValueError(msg) from error
    return {f"{name}_json": np.frombuffer(content, dtype=np.uint8)} | writer.arrays


def steps_from_arrays(name: str, arrays: Arrays, method: str = "transform") -> Any:
    """Take a fitted transformer, or model, out of `arrays`, which may be forged.

    Parameters
    ----------
    name : str
        Beginning of the names of the arrays.
    arrays : dict
        What `steps_to_arrays` has returned, and others.
    method : {"transform", "predict"}, default="transform"
        What it must have.

    Raises
    ------
    FormatError
        If the arrays do not describe one.

    Warns
    -----
    SpinneyWarning
        If another version of scikit-learn has written them.
    """
    from sklearn import __version__

    own = {key: arrays.pop(key) for key in list(arrays) if key.startswith(f"{name}_")}
    content = own.pop(f"{name}_json", None)
    if content is None or content.dtype != np.uint8 or content.ndim != 1:
        msg = f"the array {name + '_json'!r} is missing, or not a string"
        raise FormatError(msg)
    try:
        document = json.loads(content.tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"the steps before the model are not valid JSON: {error}"
        raise FormatError(msg) from error
    if not isinstance(document, dict) or set(document) != {"sklearn", "steps"}:
        msg = "the steps before the model must have 'sklearn' and 'steps'"
        raise FormatError(msg)
    written = str(document["sklearn"])[:40]
    if written.split(".")[:2] != __version__.split(".")[:2]:
        msg = (
            f"The steps before the model were saved with scikit-learn {written!r}, and "
            f"this is {__version__}, which may interpret them differently. Compare "
            "some predictions, or save them again with this version."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=2)
    reader = _Reader(name, own)
    steps = reader.decoded(document["steps"], 0)
    if not hasattr(steps, method) or own:
        msg = f"the steps must be one estimator that has {method}, and nothing else"
        raise FormatError(msg)
    return steps


def _refuse(value: Any) -> TypeError:
    kinds = ", ".join(sorted(MODULE_OF))
    shown = reprlib.repr(value)
    msg = (
        f"The steps before the model hold {shown}, of type {type_name(value)}, which "
        f"cannot be saved without pickle.\nHint: steps of these kinds can: {kinds}. "
        'Or store the others with skops: spinney.save(..., unknown_steps="skops"). Or '
        "store the steps separately, and fit the classifier on the last step and on "
        "rows that they have transformed."
    )
    return TypeError(msg)


class _Writer:
    """Makes JSON of steps; arrays are put aside."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: dict[int, int] = {}  # of our own objects, by identity
        self._n_arrays = 0
        self._n_carried = 0
        self.arrays: Arrays = {}

    def encoded(self, value: Any) -> Any:
        """Return a value as JSON can hold it; of an array, its number."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.random.RandomState):
            return None  # its draws are made; another fit draws anew
        if isinstance(value, np.generic):
            return {"scalar": [value.dtype.name, self.encoded(value.item())]}
        if isinstance(value, int):
            return {"int": str(value)} if abs(value) >= 2**53 else value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in (list, UserList) or isinstance(value, UserList):
            return [self.encoded(one) for one in value]
        if type(value) is tuple:
            return {"tuple": [self.encoded(one) for one in value]}
        if type(value) is dict:
            pairs = [[self.encoded(k), self.encoded(v)] for k, v in value.items()]
            return {"dict": pairs}
        if type(value) is slice:
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, (type, np.dtype)):
            return self._type(value)
        if isinstance(value, np.ufunc) and value.__name__ in FUNCTIONS:
            return {"function": value.__name__}
        if hasattr(value, "__spinney_save__"):
            return self._own(value)
        return self._estimator(value)

    def _own(self, value: Any) -> Any:
        """Put one of our objects aside, once; return its number."""
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self._numbers)
        kind, settings, arrays = taken_apart(value)
        for key, array in arrays.items():
            self.arrays[f"{self._name}_own{number}.{key}"] = array
        return {"own": [number, kind, json.dumps(settings, allow_nan=False)]}

    def _array(self, array: np.ndarray) -> Any:
        if array.dtype.kind in "OU":
            values = [self.encoded(one) for one in array.ravel().tolist()]
            kind = "object" if array.dtype.kind == "O" else array.dtype.str[1:]
            return {"objects": [kind, list(array.shape), values]}
        if array.dtype.newbyteorder("<") not in CODES:
            return self._unknown(array)
        number = self._n_arrays
        self._n_arrays += 1
        self.arrays[f"{self._name}_{number}"] = np.ascontiguousarray(array)
        return {"array": number}

    def _type(self, value: Any) -> Any:
        try:
            name = np.dtype(value).name
        except TypeError:
            return self._unknown(value)
        if name not in TYPES and TEXT_TYPE.fullmatch(name) is None:
            return self._unknown(value)
        return {"type": f"dtype {name}" if isinstance(value, np.dtype) else name}

    def _unknown(self, value: Any) -> Any:
        """Let skops carry a value, if that was requested; return its number."""
        if not is_carrying():
            raise _refuse(value)
        number = self._n_carried
        self._n_carried += 1
        self.arrays[f"{self._name}_skops{number}"] = carried(value)
        return {"skops": number}

    def _estimator(self, value: Any) -> Any:
        name = type(value).__name__
        module = MODULE_OF.get(name)
        if module is None or type(value) is not getattr(import_module(module), name):
            return self._unknown(value)
        state = dict(vars(value))
        if name == "ColumnTransformer" and "transformers_" in state:
            # What it was told before fitting may hold functions that choose columns;
            # scikit-learn 1.6 still looks up the names in it.
            state["transformers"] = [
                (name, "passthrough", columns)
                for name, _, columns in value.transformers_
                if name != "remainder"
            ]
        state.pop("f_", None)  # of an isotonic regression: made of the rest again
        encoded = {key: self.encoded(part) for key, part in sorted(state.items())}
        return {"step": [name, encoded]}


class _Reader:
    """Makes steps of JSON and arrays, trusting neither."""

    def __init__(self, name: str, arrays: Arrays) -> None:
        self._name = name
        self._arrays = arrays
        self._own: dict[int, Any] = {}

    def decoded(self, value: Any, depth: int) -> Any:
        """Return the value that JSON stands for."""
        if depth > MAX_DEPTH:
            msg = f"the steps before the model are nested more than {MAX_DEPTH} deep"
            raise FormatError(msg)
        if value is None or isinstance(value, (bool, str, int, float)):
            return value
        if isinstance(value, list):
            return [self.decoded(one, depth + 1) for one in value]
        if len(value) != 1:
            msg = "a part of the steps before the model has no kind, or several"
            raise FormatError(msg)
        [(kind, content)] = value.items()
        make = getattr(self, f"_make_{kind}", None)
        if make is None:
            msg = f"{reprlib.repr(kind)} is not a known kind of part"
            raise FormatError(msg)
        try:
            return make(content, depth + 1)
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            if isinstance(error, FormatError):
                raise
            msg = f"a {kind} among the steps before the model is damaged: {error}"
            raise FormatError(msg) from error

    def _make_int(self, content: Any, depth: int) -> int:
        return int(str(content)[:400])

    def _make_float(self, content: Any, depth: int) -> float:
        return float(str(content)[:40])

    def _make_scalar(self, content: Any, depth: int) -> Any:
        name, value = content
        return _dtype(name).type(self.decoded(value, depth))

    def _make_tuple(self, content: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self.decoded(one, depth) for one in _list(content))

    def _make_dict(self, content: Any, depth: int) -> dict[Any, Any]:
        pairs = [_list(pair) for pair in _list(content)]
        return {self.decoded(k, depth): self.decoded(v, depth) for k, v in pairs}

    def _make_slice(self, content: Any, depth: int) -> slice:
        start, stop, step = (
            None if one is None else int(one) for one in _list(content)
        )
        return slice(start, stop, step)

    def _taken(self, beginning: str, number: Any) -> np.ndarray:
        if type(number) is not int:
            msg = f"the number of an array must be an integer, got {number!r:.40}"
            raise FormatError(msg)
        key = f"{beginning}{number}"
        if key not in self._arrays:
            msg = f"the array {key!r} is missing, or used twice"
            raise FormatError(msg)
        return self._arrays.pop(key)

    def _make_skops(self, content: Any, depth: int) -> Any:
        return from_carried(self._taken(f"{self._name}_skops", content))

    def _make_array(self, content: Any, depth: int) -> np.ndarray:
        array = self._taken(f"{self._name}_", content)
        # A copy that may be written to, as the steps of scikit-learn expect.
        return array.astype(array.dtype.newbyteorder("="))

    def _make_objects(self, content: Any, depth: int) -> np.ndarray:
        kind, shape, values = content
        decoded = [self.decoded(one, depth) for one in _list(values)]
        flat = np.empty(len(decoded), dtype=object)
        for index, one in enumerate(decoded):
            flat[index] = one
        array = flat.reshape([int(size) for size in _list(shape)])
        if kind == "object":
            return array
        if not (isinstance(kind, str) and kind[:1] == "U" and kind[1:].isdigit()):
            msg = f"{kind!r:.40} is not a string type"
            raise FormatError(msg)
        return array.astype(np.str_)

    def _make_type(self, content: Any, depth: int) -> Any:
        text = str(content)
        dtype = _dtype(text.removeprefix("dtype "))
        return dtype if text.startswith("dtype ") else dtype.type

    def _make_function(self, content: Any, depth: int) -> Any:
        if content not in FUNCTIONS:
            msg = f"{reprlib.repr(content)} is not a known function"
            raise FormatError(msg)
        return getattr(np, content)

    def _make_own(self, content: Any, depth: int) -> Any:
        number, kind, text = content
        if type(number) is not int or number != len(self._own):
            msg = "models inside a model must be numbered"
            raise FormatError(msg)
        prefix = f"{self._name}_own{number}."
        if prefix.count("_own") > MAX_MODELS_DEEP:
            msg = f"models are nested more than {MAX_MODELS_DEEP} deep"
            raise FormatError(msg)
        arrays = {
            key.removeprefix(prefix): self._arrays.pop(key)
            for key in list(self._arrays)
            if key.startswith(prefix)
        }
        settings = parse_json(str(text))
        if not isinstance(settings, dict):
            msg = "the settings of a model inside a model must be an object"
            raise FormatError(msg)
        self._own[number] = put_together(str(kind), settings, arrays)
        refuse_leftovers(settings, arrays)
        return self._own[number]

    def _make_again(self, content: Any, depth: int) -> Any:
        return self._own[content]

    def _make_step(self, content: Any, depth: int) -> Any:
        name, state = content
        if name not in MODULE_OF or not isinstance(state, dict):
            msg = f"{reprlib.repr(name)} is not a known kind of step"
            raise FormatError(msg)
        cls = getattr(import_module(MODULE_OF[name]), name)
        step = cls.__new__(cls)
        vars(step).update(
            {str(key): self.decoded(part, depth) for key, part in state.items()}
        )
        if name == "IsotonicRegression" and hasattr(step, "X_thresholds_"):
            step._build_f(step.X_thresholds_, step.y_thresholds_)
        return step


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list):
        msg = f"a list was expected, got {reprlib.repr(content)}"
        raise FormatError(msg)
    return content


def _dtype(name: Any) -> np.dtype:
    if isinstance(name, str):
        if name in TYPES:
            return np.dtype(name)
        texts = TEXT_TYPE.fullmatch(name)
        if texts is not None:
            return np.dtype(f"U{int(texts.group(1)) // 32}")
    msg = f"{reprlib.repr(name)} is not a known type"
    raise FormatError(msg)
