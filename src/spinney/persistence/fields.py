"""Objects taken apart into settings and arrays, and put together again.

Settings are what JSON holds (numbers, texts, lists, objects); arrays are numbers and
flags. The class that rebuilds an object takes what it knows out of both, with
`take_setting` and `take_array`; what is left over is an error of the file.
"""

from __future__ import annotations

import reprlib
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spinney.errors import FormatError
from spinney.forest import ARRAYS, Forest
from spinney.forest.curves import Curve
from spinney.forest.encoder import ENCODER_ARRAYS, Encoder
from spinney.forest.invariants import CHOICES
from spinney.persistence.container import CODES, Arrays, Settings

# NumPy stores all labels at the width of the longest, and limits that width.
LONGEST_LABEL = 2**20

# Settings that came later: left out where they say what was always the case.
_LATER = {
    "absent": "zero",
    "exponential": "numpy",
    "model_predicts": "answer",
    "rounded_rows": "none",
    "unseen_category": "missing",
}
# What categories may be, by the name in a file, and the largest number of columns that
# may have some: a forged number must not fill the memory.
CATEGORY_TYPES = {
    "str": np.uint8,
    "int": np.int64,
    "float": np.float64,
    "bool": np.bool_,
}
LARGEST_TABLE = 2**20
_CHOICES = sorted(set(CHOICES) - set(_LATER))
_OPTIONAL = (
    "category_offsets",
    "category_set",
    "category_words",
    "n_node_samples",
    "tree_output",
    "zero_is_missing",
)


# ------------------------------------------------------------------ taking


def take_setting(settings: Settings, name: str, kind: type) -> Any:
    """Take one setting out of `settings`; it must have exactly the type `kind`."""
    if name not in settings:
        msg = f"the setting {name!r} is missing"
        raise FormatError(msg)
    value = settings.pop(name)
    if type(value) is not kind:
        msg = f"{name} must be of type {kind.__name__}, got {reprlib.repr(value)}"
        raise FormatError(msg)
    if isinstance(value, str) and not _is_unicode(value):
        msg = (
            f"{name} must be a string of Unicode characters, got {reprlib.repr(value)}"
        )
        raise FormatError(msg)
    return value


def take_array(arrays: Arrays, name: str, dtype: DTypeLike, ndim: int) -> NDArray[Any]:
    """Take one array out of `arrays`; its type and number of axes must fit."""
    if name not in arrays:
        msg = f"the array {name!r} is missing"
        raise FormatError(msg)
    array = arrays.pop(name)
    if array.dtype != np.dtype(dtype).newbyteorder("<") or array.ndim != ndim:
        msg = (
            f"{name} must be an array of {np.dtype(dtype).name} with {ndim} axes, got "
            f"{array.dtype.name} of shape {array.shape}"
        )
        raise FormatError(msg)
    return array


def refuse_leftovers(settings: Settings, arrays: Arrays) -> None:
    """Raise `FormatError` if something is left that was not taken."""
    left = sorted(settings) + sorted(arrays)
    if left:
        msg = f"it has the unknown entry {reprlib.repr(left[0])}"
        raise FormatError(msg)


# ------------------------------------------------------------------ forest


def forest_to_parts(forest: Forest) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `forest_from_parts` makes a forest from."""
    if not isinstance(forest.source, str) or not _is_unicode(forest.source):
        msg = f"source must be a string of Unicode characters, got {forest.source!r}."
        raise TypeError(msg)
    settings: Settings = {name: getattr(forest, name) for name in _CHOICES}
    settings |= {
        "decision_threshold": float(forest.decision_threshold),
        "link_scale": float(forest.link_scale),
        "n_features": int(forest.n_features),
        "n_outputs": int(forest.n_outputs),
        "source": forest.source,
    }
    for name, usual in _LATER.items():
        if getattr(forest, name) != usual:
            settings[name] = getattr(forest, name)
    if forest.missing_value is not None:
        settings["missing_value"] = float(forest.missing_value)
    arrays: Arrays = {"base_score": forest.base_score}
    for name in ARRAYS:
        if getattr(forest, name) is not None:
            arrays[name] = getattr(forest, name)
    if forest.classes is not None:
        arrays |= labels_to_arrays("classes", forest.classes)
    if forest.feature_names is not None:
        arrays |= texts_to_arrays("feature_names", forest.feature_names)
    if forest.curve is not None:
        settings["curve"] = {"kind": forest.curve.kind, "of": forest.curve.of}
        arrays |= {"curve_x": forest.curve.x, "curve_y": forest.curve.y}
    if forest.encoder is not None:
        for name in ENCODER_ARRAYS:
            arrays[f"encoder_{name}"] = getattr(forest.encoder, name)
    if forest.categories is not None:
        settings["categories"] = [
            [column, type(values[0]).__name__ if values else "str"]
            for column, values in enumerate(forest.categories)
            if values is not None
        ]
        for column, values in enumerate(forest.categories):
            if values is not None:
                arrays |= _categories_to_arrays(f"categories_{column}", values)
    return settings, arrays


def _categories_to_arrays(name: str, values: tuple[Any, ...]) -> Arrays:
    if not values or isinstance(values[0], str):
        return texts_to_arrays(name, values)
    if isinstance(values[0], int) and not isinstance(values[0], bool):
        try:
            return {name: np.array(values, dtype=np.int64)}
        except OverflowError as error:
            msg = f"{name} must fit into 64 bits to be saved."
            raise ValueError(msg) from error
    return {name: np.array(values)}


def _take_categories(
    settings: Settings, arrays: Arrays, n_features: int
) -> list[tuple[Any, ...] | None]:
    """Take the categories of all columns out of settings and arrays."""
    made: list[tuple[Any, ...] | None] = [None] * min(n_features, LARGEST_TABLE)
    for entry in take_setting(settings, "categories", list):
        if not isinstance(entry, list) or [type(part) for part in entry] != [int, str]:
            msg = "categories must be pairs of a column and a type"
            raise FormatError(msg)
        column, kind = entry
        if not 0 <= column < len(made) or kind not in CATEGORY_TYPES:
            msg = f"categories name column {column} of type {kind!r}"
            raise FormatError(msg)
        name = f"categories_{column}"
        if kind == "str":
            made[column] = texts_from_arrays(name, arrays)
        else:
            made[column] = tuple(
                take_array(arrays, name, CATEGORY_TYPES[kind], 1).tolist()
            )
        if made[column] is None:
            msg = f"the array {name + '_ends'!r} is missing"
            raise FormatError(msg)
    return made


def forest_from_parts(settings: Settings, arrays: Arrays) -> Forest:
    """Take a forest out of `settings` and `arrays`, trusting neither."""
    parts: dict[str, Any] = {
        name: take_setting(settings, name, str) for name in _CHOICES
    }
    for name in ("decision_threshold", "link_scale"):
        parts[name] = take_setting(settings, name, float)
    for name in ("n_features", "n_outputs"):
        parts[name] = take_setting(settings, name, int)
    if parts["n_outputs"] > 1:
        # Some files have one here all the same; it never had any effect.
        parts["decision_threshold"] = 0.0
    for name in set(_LATER) & set(settings):
        parts[name] = take_setting(settings, name, str)
    if "missing_value" in settings:
        parts["missing_value"] = take_setting(settings, "missing_value", float)
    parts["source"] = take_setting(settings, "source", str)
    for name, dtype in ARRAYS.items():
        if name in arrays or name not in _OPTIONAL:
            ndim = 2 if name == "value" else 1
            parts[name] = take_array(arrays, name, dtype, ndim)
    parts["base_score"] = take_array(arrays, "base_score", np.float64, 1)
    if len(parts["base_score"]) != parts["n_outputs"]:
        msg = (
            f"base_score must have one entry for each of the {parts['n_outputs']} "
            f"outputs, got {len(parts['base_score'])}"
        )
        raise FormatError(msg)
    parts["classes"] = labels_from_arrays("classes", arrays)
    if "curve" in settings:
        curve = take_setting(settings, "curve", dict)
        kind, of = (take_setting(curve, name, str) for name in ("kind", "of"))
        narrow = "curve_x" in arrays and arrays["curve_x"].dtype == np.float32
        number = np.float32 if narrow else np.float64
        x, y = (take_array(arrays, f"curve_{name}", number, 1) for name in "xy")
        parts["curve"] = Curve(kind, of, x, y)
        refuse_leftovers(curve, {})
    if "encoder_keys" in arrays:
        parts["encoder"] = Encoder(
            **{
                name: take_array(arrays, f"encoder_{name}", dtype, 1)
                for name, dtype in ENCODER_ARRAYS.items()
            }
        )
    if "categories" in settings:
        parts["categories"] = _take_categories(settings, arrays, parts["n_features"])
    parts["feature_names"] = texts_from_arrays("feature_names", arrays)
    return Forest(**parts)


def part_forest_to_parts(name: str, forest: Forest) -> tuple[Settings, Arrays]:
    """Return the settings and arrays of a forest that is part of another object.

    Parameters
    ----------
    name : str
        What the part is called: the one setting that holds all of the forest's, and
        with a dot the beginning of the names of its arrays.
    forest : Forest
        The part.
    """
    settings, arrays = forest_to_parts(forest)
    return {name: settings}, {f"{name}.{key}": array for key, array in arrays.items()}


def take_forest(name: str, settings: Settings, arrays: Arrays) -> Forest:
    """Take a forest that is part of another object out of settings and arrays."""
    own_settings = take_setting(settings, name, dict)
    prefix = f"{name}."
    own_arrays = {
        key.removeprefix(prefix): arrays.pop(key)
        for key in list(arrays)
        if key.startswith(prefix)
    }
    forest = forest_from_parts(own_settings, own_arrays)
    refuse_leftovers(own_settings, own_arrays)
    return forest


# ------------------------------------------------------------------ labels


def labels_to_arrays(name: str, labels: NDArray[Any]) -> Arrays:
    """Return class labels as one array, of numbers or of the letters of texts."""
    made_of = "text"
    if labels.dtype.kind == "O":
        labels, made_of = _texts_among_objects(name, labels), "objects"
    if labels.dtype.kind == "U":
        width = labels.dtype.itemsize // 4
        codes = np.ascontiguousarray(labels, dtype=f"<U{width}").view("<u4")
        codes = codes.reshape(len(labels), width)
        if width > LONGEST_LABEL or not _are_unicode(codes):
            msg = (
                f"{name} must be strings of at most {LONGEST_LABEL:,} Unicode "
                "characters to be saved."
            )
            raise ValueError(msg)
        return {f"{name}_{made_of}": codes}
    if labels.dtype.newbyteorder("<") not in CODES:
        msg = (
            f"{name} must be integers, floats, booleans or strings to be saved, got an "
            f"array of dtype {labels.dtype}. Convert the labels, and map the "
            "predictions back after loading."
        )
        raise TypeError(msg)
    return {name: labels}


def labels_from_arrays(name: str, arrays: Arrays) -> NDArray[Any] | None:
    """Take class labels out of `arrays`; None if there are none."""
    made_of = "objects" if f"{name}_objects" in arrays else "text"
    if f"{name}_{made_of}" in arrays:
        codes = take_array(arrays, f"{name}_{made_of}", np.uint32, 2)
        width = codes.shape[1]
        if not 1 <= width <= LONGEST_LABEL or not _are_unicode(codes):
            msg = f"{name} must be strings of 1 to {LONGEST_LABEL:,} Unicode characters"
            raise FormatError(msg)
        # A copy in the byte order of this machine, which `view` then reads as texts.
        texts = codes.astype(np.uint32).view(f"=U{width}").reshape(-1)
        return texts.astype(object) if made_of == "objects" else texts
    if name not in arrays:
        return None
    labels = take_array(arrays, name, arrays[name].dtype, 1)
    return labels.astype(labels.dtype.newbyteorder("="))


def _texts_among_objects(name: str, labels: NDArray[Any]) -> NDArray[np.str_]:
    """Return an array of Python texts as one of NumPy's, or refuse it."""
    for label in labels.ravel():
        if not isinstance(label, str):
            msg = (
                f"{name} must be all integers, all floats, all booleans or all strings "
                f"to be saved, got the Python object {reprlib.repr(label)} of type "
                f"{type(label).__name__}. Convert the labels to one of these types."
            )
            raise TypeError(msg)
    texts = labels.astype(np.str_)
    if (texts.astype(object) != labels).any():
        msg = f"{name} must not end in null characters to be saved."
        raise ValueError(msg)
    return texts


def _is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8: no halves of surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _are_unicode(codes: NDArray[np.uint32]) -> bool:
    """Whether all numbers are characters, halves of surrogate pairs excluded."""
    surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
    return not (surrogate | (codes > 0x10FFFF)).any()


# ------------------------------------------------------------------ texts


def texts_to_arrays(name: str, texts: tuple[str, ...]) -> Arrays:
    """Return texts of any lengths as their UTF-8 bytes and where each one ends."""
    try:
        encoded = [text.encode("utf-8") for text in texts]
    except UnicodeEncodeError as error:
        msg = f"{name} must be strings of Unicode characters to be saved: {error}."
        raise ValueError(msg) from error
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {
        f"{name}_ends": ends,
        f"{name}_utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
    }


def texts_from_arrays(name: str, arrays: Arrays) -> tuple[str, ...] | None:
    """Take texts out of `arrays`; None if there are none."""
    if f"{name}_ends" not in arrays:
        return None
    ends = take_array(arrays, f"{name}_ends", np.int64, 1)
    joined = take_array(arrays, f"{name}_utf8", np.uint8, 1).tobytes()
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    if (starts[1:] < starts[:-1]).any() or starts[-1] != len(joined):
        msg = f"{name}_ends must increase up to the number of bytes, {len(joined)}"
        raise FormatError(msg)
    bounds = starts.tolist()
    try:
        return tuple(
            joined[start:end].decode("utf-8") for start, end in pairwise(bounds)
        )
    except UnicodeDecodeError as error:
        msg = f"{name} must be UTF-8: {error}"
        raise FormatError(msg) from error
