"""The exported code as a Python object, compiled by the installed C compiler."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.base.progress import progress_for
from spinney.errors import UnsupportedModelError
from spinney.export.c import make_source
from spinney.export.c_text import fill, with_prefix
from spinney.export.compiler import build
from spinney.export.program import Program, program_of
from spinney.export.source import Source
from spinney.forest.frames import frame_of
from spinney.forest.rows import as_rows

NAME = "spinney_model"
# Share of the work, for a progress bar, once the C code is written.
WRITTEN = 0.1

# Loops over rows, which no device needs.
BATCH = """
#include "$header"
void P_batch(const $row *rows, size_t n, int32_t *classes, int32_t *counts);
void P_batch(const $row *rows, size_t n, int32_t *classes, int32_t *counts) {
    size_t i;
    for (i = 0; i < n; i++) {
        int n_evaluated;
        classes[i] = (int32_t)P_predict_counted(rows + $n_features * i, &n_evaluated);
        counts[i] = (int32_t)n_evaluated;
    }
}
"""
NUMBERS = """
void P_${function}_batch(const $row *rows, size_t n, $sum *numbers);
void P_${function}_batch(const $row *rows, size_t n, $sum *numbers) {
    size_t i;
    for (i = 0; i < n; i++) {
        $call;
    }
}
"""
# The quickest way from Python: a function that takes an array as it is. Calling through
# ctypes takes longer than most forests.
EXTENSION = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "$header"

static PyObject *P_answer_row(PyObject *self, PyObject *row) {
    Py_buffer view;
    long answer = -1;
    (void)self;
    if (PyObject_GetBuffer(row, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear();
        return PyLong_FromLong(answer);
    }
    if (view.ndim == 1 && view.shape[0] == $n_features && view.format != NULL
        && view.format[0] == '$format' && view.format[1] == 0
        && (size_t)view.buf % sizeof($row) == 0) {
        answer = P_predict((const $row *)view.buf);
    }
    PyBuffer_Release(&view);
    return PyLong_FromLong(answer);
}

static PyMethodDef P_methods[] = {
    {"answer_row", P_answer_row, METH_O, "The class of a row, -1 if it is none."},
    {NULL, NULL, 0, NULL}
};
static struct PyModuleDef P_module = {
    PyModuleDef_HEAD_INIT, "$name", NULL, -1, P_methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_$name(void) {
    PyObject *module = PyModule_Create(&P_module);
#ifdef Py_GIL_DISABLED
    if (module != NULL) { /* there is no state to protect */
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
    }
#endif
    return module;
}
"""


def compile(obj: Any, *, verbose: Any = None) -> CompiledModel:
    """Compile a forest or a fitted classifier with the C compiler of this machine.

    The code is that of :func:`spinney.export_c`, in exact arithmetic, so the
    predictions are those of `obj`. Use it for single rows and small batches, where a
    call takes as long as the trees. Once compiled, it does not need Numba.

    Parameters
    ----------
    obj : Forest or fitted classifier of spinney
        What to compile. See :func:`spinney.export_c` for what cannot be.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is called with the
        share of the work that is done. None draws one in interactive use, if it takes
        more than two seconds. (The C compiler itself reports no progress.)

    Returns
    -------
    model : CompiledModel
        Predicts batches, and single rows when called.

    Raises
    ------
    RuntimeError
        If there is no C compiler: the one that the environment variable CC names, or
        else cc, gcc, clang or tcc. Also if it fails, if the compiled library cannot be
        loaded, or if there is no folder for temporary files.

    See Also
    --------
    spinney.export_c : Writes the code to a file.

    Examples
    --------
    >>> import shutil
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> if shutil.which("cc"):
    ...     fast = spinney.compile(spinney.read_model(model))
    ...     assert (fast.predict(X) == model.predict(X)).all()
    """
    show = progress_for(verbose, "compiling")
    program = program_of(obj)
    source, _ = make_source(program, NAME, f"{NAME}.h")
    show(WRITTEN)
    compiled = CompiledModel(source, program)
    show(1.0)
    return compiled


class CompiledModel:
    """A model as machine code, made by :func:`spinney.compile`.

    Call it with one row, a one-dimensional array of the type that the model compares
    in, for its label (or number). Safe to be used from several threads at once.

    Parameters
    ----------
    source : Source
        The code.
    program : Program
        What it does.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or None
        Class labels; None for a regressor.
    n_features_in_ : int
        Number of columns.
    """

    def __init__(self, source: Source, program: Program) -> None:
        forest = program.forest
        self.classes_ = forest.classes
        self.n_features_in_ = forest.n_features
        self._source, self._program = source, program
        self._names = forest.feature_names
        self._dtype = np.dtype(forest.input_dtype)
        self._rounded_rows = forest.rounded_rows
        self._sum_dtype = np.dtype(forest.sum_dtype)
        self._n_outputs = forest.n_outputs
        self._has_proba = forest.classes is not None and forest.link != "none"
        if forest.curve is not None:
            self._sum_dtype = np.dtype(np.float64)
        self._labels = None if forest.classes is None else list(forest.classes)
        self._shape = (forest.n_features,)
        library, self._answer_row = build(NAME, self._files(), source.needs_math)
        self._load(library)

    def _files(self) -> dict[str, str]:
        """Return the files to compile."""
        row = "float" if self._dtype == np.float32 else "double"
        sums = "float" if self._sum_dtype == np.float32 else "double"
        parts = {
            "header": f"{NAME}.h",
            "row": row,
            "sum": sums,
            "n_features": self.n_features_in_,
        }

        def loop(function: str, n: int) -> str:
            call = f"P_{function}(rows + {self.n_features_in_} * i, numbers + {n} * i)"
            if function == "predict" and n == 1:
                call = f"numbers[i] = P_predict(rows + {self.n_features_in_} * i)"
            return fill(NUMBERS, function=function, call=call, **parts)

        files = {f"{NAME}.c": self._source.code, f"{NAME}.h": self._source.header}
        if self._labels is None:
            batch = fill('#include "$header"', **parts) + loop(
                "predict", self._n_outputs
            )
        else:
            batch = fill(BATCH, **parts)
            if self._has_proba:
                batch += loop("predict_proba", self._n_probabilities)
            letter = "f" if self._dtype == np.float32 else "d"
            extension = fill(EXTENSION, name=NAME, format=letter, **parts)
            files["extension.c"] = with_prefix(extension, NAME)
        files["batch.c"] = with_prefix(batch, NAME)
        return files

    @property
    def _n_probabilities(self) -> int:
        return self._program.forest.n_probabilities

    def _load(self, library: ctypes.CDLL) -> None:
        """Find the functions of the library."""
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._library = library

        def function(name: str, *arguments: Any) -> Any:
            found = getattr(library, f"{NAME}_{name}")
            found.argtypes, found.restype = arguments, None
            return found

        if self._labels is None:
            self._batch_of_numbers = function("predict_batch", pointer, size, pointer)
            return
        self._batch = function("batch", pointer, size, pointer, pointer)
        if self._has_proba:
            proba = function("predict_proba_batch", pointer, size, pointer)
            self._batch_of_numbers = proba
        self._one = function("predict", pointer)
        self._one.restype = ctypes.c_int

    # A pickle carries the source, which is compiled again where it is loaded.
    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledModel, (self._source, self._program)

    def __repr__(self) -> str:
        return f"<CompiledModel of {self._program.forest!r}>"

    def __call__(self, row: NDArray[np.floating]) -> Any:
        """Return the label (or the number) for one row.

        Parameters
        ----------
        row : ndarray of shape (n_features,)
            One row, of the type that the model compares in.
        """
        if self._answer_row is not None:
            winner = self._answer_row(row)
            if winner >= 0:
                return self._labels[winner]  # type: ignore[index]
        elif (
            self._labels is not None
            and type(row) is np.ndarray
            and row.dtype == self._dtype
            and row.shape == self._shape
            and row.flags.c_contiguous
            and row.flags.aligned
        ):
            return self._labels[self._one(row.__array_interface__["data"][0])]
        given = np.asarray(row)
        if given.shape != self._shape:
            msg = (
                f"A compiled model takes one row of {self._shape[0]} numbers when it "
                f"is called, got shape {given.shape}. Use predict for several rows."
            )
            raise ValueError(msg)
        return self.predict(given.reshape(1, -1))[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict rows as the model that was compiled does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        answers : ndarray of shape (n_rows,)
            Class labels, or numbers if this is a regressor.
        """
        if self._labels is None:
            numbers = self._numbers(X, self._n_outputs)
            return numbers[:, 0] if self._n_outputs == 1 else numbers
        return self.predict_counted(X)[0]

    def predict_counted(self, X: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Predict rows, and count the trees evaluated.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        n_evaluated : ndarray of shape (n_rows,), dtype=int32
            Number of trees evaluated for each row.
        """
        if self.classes_ is None:
            msg = "This model is a regressor and has no classes. Use predict."
            raise TypeError(msg)
        rows = self._rows(X)
        classes = np.empty(len(rows), dtype=np.int32)
        counts = np.empty(len(rows), dtype=np.int32)
        self._batch(
            rows.ctypes.data, len(rows), classes.ctypes.data, counts.ctypes.data
        )
        return self.classes_.take(classes), counts

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class by all trees.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        if self.classes_ is None:
            msg = "This model is a regressor and has no classes. Use predict."
            raise TypeError(msg)
        if not self._has_proba:
            msg = "This model has labels, but no probabilities. Use predict."
            raise UnsupportedModelError(msg)
        return self._numbers(X, self._n_probabilities)

    def _numbers(self, X: Any, n: int) -> NDArray[np.floating]:
        rows = self._rows(X)
        numbers = np.empty((len(rows), n), dtype=self._sum_dtype)
        self._batch_of_numbers(rows.ctypes.data, len(rows), numbers.ctypes.data)
        return numbers

    def _rows(self, X: Any) -> NDArray[np.floating]:
        frame = frame_of(X)
        if frame is not None:
            X = frame.in_order_of(self._names)
        rows = as_rows(X, self.n_features_in_, self._dtype, self._rounded_rows)
        return np.ascontiguousarray(rows, dtype=self._dtype)
