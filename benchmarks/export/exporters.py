"""The same model written as C by each exporter, behind one function.

Every exporter gives files, among them ``entry.c`` with ``int answer(const T *row)``:
the class of a row. What an exporter does not take is left out.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import spinney
from benchmarks.export.cases import Case


@dataclass(frozen=True)
class Written:
    """Code in a folder.

    Parameters
    ----------
    row_type : str
        Type of the numbers of a row, in C.
    sources : tuple of str
        Files to compile.
    objects : tuple of str
        Files to link as they are, for this machine only.
    include : tuple of str
        Folders with headers.
    """

    row_type: str
    sources: tuple[str, ...] = ("model.c", "entry.c")
    objects: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


class NotTaken(Exception):
    """An exporter does not take a model, or is not installed."""


def _entry(folder: Path, text: str) -> None:
    (folder / "entry.c").write_text(text, encoding="ascii")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        msg = f"{name} is not installed"
        raise NotTaken(msg) from error


# ------------------------------------------------------------------ spinney


def _spinney(case: Case, folder: Path, obj: Any, **options: Any) -> Written:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", spinney.SpinneyWarning)
        spinney.export_c(obj, folder / "model.c", name="m", **options)
    text = (folder / "model.h").read_text()
    row = text.split("int m_predict(const ")[1].split(" *row")[0]
    _entry(
        folder,
        f'#include "model.h"\nint answer(const {row} *row) '
        "{ return m_predict(row); }",
    )
    return Written(row)


FITTED: dict[tuple[str, int], Any] = {}


def early(case: Case) -> Any:
    """Return a classifier that exits early, at most one row in a thousand differing."""
    key = case.name, len(case.calibration)
    if key not in FITTED:
        FITTED[key] = spinney.accelerate(
            case.model, case.calibration, max_disagreement=1e-3, random_state=0
        )
    return FITTED[key]


def exact(case: Case, folder: Path) -> Written:
    return _spinney(case, folder, spinney.read_model(case.model))


def exact_packed(case: Case, folder: Path) -> Written:
    return _spinney(case, folder, spinney.read_model(case.model), layout="packed")


def exact_early(case: Case, folder: Path) -> Written:
    return _spinney(case, folder, early(case))


def integer(case: Case, folder: Path) -> Written:
    forest = spinney.read_model(case.model)
    return _spinney(
        case, folder, forest, arithmetic="integer", X=case.calibration, **_ints(case)
    )


def integer_floats(layout: str) -> Callable[..., Written]:
    def write(case: Case, folder: Path) -> Written:
        return _spinney(
            case,
            folder,
            spinney.read_model(case.model),
            arithmetic="integer",
            X=case.calibration,
            input_type="float32",
            layout=layout,
        )

    return write


def integer_early(case: Case, folder: Path) -> Written:
    # Half of the rows find the rule, the other half proves it after rounding.
    half = len(case.calibration) // 2
    some = Case(case.name, case.model, case.calibration[:half], case.test)
    rest = case.calibration[half:]
    return _spinney(
        case, folder, early(some), arithmetic="integer", X=rest, **_ints(case)
    )


def _ints(case: Case) -> dict[str, str]:
    return {"input_type": "int16"} if "int16" in case.name else {}


# ------------------------------------------------------------------ others


def emlearn(dtype: str, method: str, leaf_bits: int) -> Callable[..., Written]:
    def write(case: Case, folder: Path) -> Written:
        library = _import("emlearn")
        kind = type(case.model).__name__
        if "Forest" not in kind:
            msg = f"emlearn takes no {kind}"
            raise NotTaken(msg)
        made = library.convert(
            case.model, method=method, dtype=dtype, leaf_bits=leaf_bits
        )
        made.save(file=str(folder / "model.h"), name="m", include_proba=False)
        n = case.test.shape[1]
        _entry(
            folder,
            f'#include "model.h"\nint answer(const {dtype} *row) '
            f"{{ return m_predict(row, {n}); }}",
        )
        return Written(dtype, ("entry.c",), include=(library.includedir,))

    return write


def m2cgen(case: Case, folder: Path) -> Written:
    library = _import("m2cgen")
    sys.setrecursionlimit(100_000)  # it walks trees, and lists of trees, by recursion
    try:
        code = library.export_to_c(case.model)
    except Exception as error:  # it takes the versions of its day
        msg = f"m2cgen does not take the model: {error}"
        raise NotTaken(msg) from error
    (folder / "model.c").write_text(code, encoding="ascii")
    _entry(
        folder,
        "void score(double *input, double *output);\n"
        "int answer(const double *row) {\n    double out[2];\n"
        "    score((double *)row, out);\n    return out[1] > out[0];\n}",
    )
    return Written("double")


def tl2cgen(case: Case, folder: Path) -> Written:
    library, treelite = _import("tl2cgen"), _import("treelite")
    kind = type(case.model).__name__
    if kind.startswith("XGB"):
        model = treelite.frontend.from_xgboost(case.model.get_booster())
    elif kind.startswith("LGBM"):
        model = treelite.frontend.from_lightgbm(case.model.booster_)
    else:
        model = treelite.sklearn.import_model(case.model)
    library.generate_c_code(model, dirpath=str(folder), params={"parallel_comp": 0})
    code = (folder / "main.c").read_text()
    head = (folder / "header.h").read_text()
    row = "double" if "double*" in head.split("predict(")[-1] else "float"
    row = "double" if "double fvalue" in head else "float"
    n_out = 2 if "Forest" in kind else 1
    decide = "out[1] > out[0]" if n_out == 2 else "out[0] > 0.5"
    n = case.test.shape[1]
    _entry(
        folder,
        f'#include "header.h"\nint answer(const {row} *row) {{\n'
        f"    union Entry data[{n}];\n    {row} out[2] = {{0, 0}};\n    int i;\n"
        f"    for (i = 0; i < {n}; i++) {{\n        data[i].fvalue = row[i];\n    }}\n"
        f"    predict(data, 0, out);\n    return {decide};\n}}",
    )
    assert code
    return Written(row, ("main.c", "entry.c"))


def micromlgen(case: Case, folder: Path) -> Written:
    library = _import("micromlgen")
    if "Forest" not in type(case.model).__name__:
        msg = "micromlgen takes no such model"
        raise NotTaken(msg)
    code = library.port(case.model)
    (folder / "model.h").write_text(code.replace("<cstdarg>", "<stdarg.h>"))
    (folder / "entry.cpp").write_text(
        '#include <stdint.h>\n#include "model.h"\n'
        "static Eloquent::ML::Port::RandomForest forest;\n"
        'extern "C" int answer(const float *row) '
        "{ return forest.predict((float *)row); }\n"
    )
    return Written("float", ("entry.cpp",))


# lleaves needs an older llvmlite than Numba: this may be the Python of another
# environment.
LLEAVES_PYTHON = os.environ.get("SPINNEY_LLEAVES_PYTHON", sys.executable)
# All trees in one block, as its documentation advises for single rows.
LLEAVES = """
import lleaves
model = lleaves.Model(model_file="model.txt")
model.compile(cache="model.o", fblocksize=model.num_trees())
"""


def run_lleaves(code: str, folder: Path) -> str:
    """Run Python code where lleaves is installed; return what it prints."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [LLEAVES_PYTHON, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        msg = f"lleaves does not run here: {done.stderr[-200:]}"
        raise NotTaken(msg)
    return done.stdout


def lleaves(case: Case, folder: Path) -> Written:
    if not type(case.model).__name__.startswith("LGBM"):
        msg = "lleaves takes LightGBM only"
        raise NotTaken(msg)
    case.model.booster_.save_model(str(folder / "model.txt"))
    run_lleaves(LLEAVES, folder)
    _entry(
        folder,
        "void forest_root(double *data, double *out, int start, int end);\n"
        "int answer(const double *row) {\n    double out[1];\n"
        "    forest_root((double *)row, out, 0, 1);\n    return out[0] > 0.5;\n}",
    )
    return Written("double", ("entry.c",), ("model.o",))


FOR_DEVICES: dict[str, Callable[[Case, Path], Written]] = {
    "spinney integer, int16 rows": integer,
    "spinney integer, int16 rows, early exit": integer_early,
    "spinney integer, float rows": integer_floats("packed"),
    "spinney exact, packed": exact_packed,
    "emlearn loadable, int16, votes": emlearn("int16_t", "loadable", 0),
    "emlearn loadable, int16, 8-bit leaves": emlearn("int16_t", "loadable", 8),
    "emlearn inline, int16, votes": emlearn("int16_t", "inline", 0),
    "emlearn inline, float, votes": emlearn("float", "inline", 0),
    "m2cgen": m2cgen,
    "tl2cgen": tl2cgen,
    "micromlgen": micromlgen,
}
FOR_SERVERS: dict[str, Callable[[Case, Path], Written]] = {
    "spinney exact": exact,
    "spinney exact, early exit": exact_early,
    "spinney integer, fast layout": integer_floats("fast"),
    "spinney integer, packed layout": integer_floats("packed"),
    "emlearn inline, float, votes": emlearn("float", "inline", 0),
    "lleaves": lleaves,
    "tl2cgen": tl2cgen,
    "m2cgen": m2cgen,
}


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def typed(rows: Any, row_type: str) -> Any:
    """Return rows as an exporter's code takes them."""
    kinds = {"float": np.float32, "double": np.float64, "int16_t": np.int16}
    return np.ascontiguousarray(rows, dtype=kinds[row_type])
