"""Exported code compiled for this machine and called row by row, or for all rows."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from hypothesis import settings

from spinney import SpinneyWarning
from spinney.export.c import make_source
from spinney.export.program import Program, program_of

# Each example of Hypothesis starts a compiler: a sixth of what others try.
few_examples = settings(max_examples=settings.default.max_examples // 6)
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")

# Loops over rows: all answers; the answers after every number of steps, of which every
# second is taken from a copy of the state; answers with features bought on the way.
LOOPS = """
#include "m.h"
#include <string.h>
void all_rows(const {row} *rows, size_t n, int *classes, int *counts);
void all_rows(const {row} *rows, size_t n, int *classes, int *counts) {{
    size_t i;
    for (i = 0; i < n; i++) {{
        classes[i] = m_predict_counted(rows + {n} * i, &counts[i]);
        if (classes[i] != m_predict(rows + {n} * i)) {{
            classes[i] = -9;
        }}
    }}
}}
"""
STEPS = """
void all_steps(const {row} *rows, size_t n, int *answers);
void all_steps(const {row} *rows, size_t n, int *answers) {{
    size_t i, k;
    for (i = 0; i < n; i++) {{
        m_state a, b;
        m_start(&a, rows + {n} * i);
        *answers++ = m_answer(&a);
        for (k = 0; k != {n_steps}; k++) {{
            if (k % 2) {{
                b = a;
                memset((void *)&a, 255, sizeof a);
                m_step(&b);
                a = b;
            }} else {{
                m_step(&a);
            }}
            *answers++ = m_answer(&a);
        }}
        if (m_step(&a)) {{
            answers[-1] = -9;
        }}
    }}
}}
"""
LAZILY = """
struct purse {{ const {row} *row; int *times; }};
static {row} fetch(void *context, size_t feature) {{
    struct purse *purse = (struct purse *)context;
    purse->times[feature]++;
    return purse->row[feature];
}}
void lazily(const {row} *rows, size_t n, int *classes, int *times);
void lazily(const {row} *rows, size_t n, int *classes, int *times) {{
    size_t i;
    for (i = 0; i < n; i++) {{
        struct purse purse;
        purse.row = rows + {n} * i;
        purse.times = times + {n} * i;
        classes[i] = m_predict_lazily(fetch, &purse);
    }}
}}
"""
NUMBERS = """
void all_numbers(const {row} *rows, size_t n, {sum} *numbers);
void all_numbers(const {row} *rows, size_t n, {sum} *numbers) {{
    size_t i;
    for (i = 0; i < n; i++) {{
        {call}
    }}
}}
"""
ROW_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
}


def need(tool):
    """Skip a test unless a program is there."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    return tool


def write(obj, folder, **options):
    """Write the code of an object into a folder; return it and its report."""
    program = obj if isinstance(obj, Program) else program_of(obj)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpinneyWarning)
        source, report = make_source(program, "m", "m.h", **options)
    (folder / "m.c").write_text(source.code, encoding="ascii")
    (folder / "m.h").write_text(source.header, encoding="ascii")
    return source, report


class Native:
    """An exported object as machine code of this computer."""

    def __init__(
        self, obj, folder, *, compiler="gcc", flags=("-O1",), numbers="", **options
    ):
        self.program = obj if isinstance(obj, Program) else program_of(obj)
        self.forest = self.program.forest
        self.source, self.report = write(self.program, folder, **options)
        input_type = options.get("input_type") or self.forest.input_dtype
        self.dtype = np.dtype(input_type)
        row = ROW_TYPES[input_type]
        parts = {"row": row, "n": self.forest.n_features}
        loops = (
            LOOPS.format(**parts)
            if self.forest.classes is not None
            else ('#include "m.h"\n')
        )
        if "m_start" in self.source.header:
            self.n_steps = len(self.program.steps.order)
            loops += STEPS.format(n_steps=self.n_steps, **parts)
        if "m_predict_lazily" in self.source.header:
            loops += LAZILY.format(**parts)
        if numbers:
            n_numbers, kind = self._numbers(numbers)
            call = f"m_{numbers}(rows + {parts['n']} * i, numbers + {n_numbers} * i);"
            if numbers == "predict" and n_numbers == 1:
                call = f"numbers[i] = m_predict(rows + {parts['n']} * i);"
            loops += NUMBERS.format(call=call, sum=kind, **parts)
        (folder / "loops.c").write_text(loops, encoding="ascii")
        command = [need(compiler), *STRICT, *flags, "-shared", "-fPIC", "-o", "m.so"]
        if compiler == "tcc":
            command = [
                need(compiler),
                "-Wall",
                "-Werror",
                *flags,
                "-shared",
                "-o",
                "m.so",
            ]
        math = ["-lm"] if self.source.needs_math else []
        done = subprocess.run(
            [*command, "m.c", "loops.c", *math],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:3000]
        self.library = ctypes.CDLL(str(folder / "m.so"))

    def _numbers(self, function):
        forest = self.forest
        kind = "float" if forest.sum_dtype == "float32" else "double"
        n = forest.n_outputs
        if function == "predict_proba":
            n = max(n, len(forest.classes))
        self.number_dtype = np.dtype(forest.sum_dtype)
        if function == "predict_proba" and forest.curve is not None:
            kind, self.number_dtype = "double", np.dtype(np.float64)
        self.n_numbers = n
        return n, kind

    def rows(self, X):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.ascontiguousarray(X, dtype=self.dtype)

    def call(self, function, X, *outputs):
        rows = self.rows(X)
        pointers = [ctypes.c_void_p(out.ctypes.data) for out in outputs]
        getattr(self.library, function)(
            ctypes.c_void_p(rows.ctypes.data), ctypes.c_size_t(len(rows)), *pointers
        )

    def counted(self, X):
        """Return class indices and numbers of trees."""
        classes, counts = np.zeros((2, len(X)), dtype=np.intc)
        self.call("all_rows", X, classes, counts)
        return classes, counts

    def steps(self, X):
        """Return class indices, one column per number of steps."""
        answers = np.zeros((len(X), self.n_steps + 1), dtype=np.intc)
        self.call("all_steps", X, answers)
        return answers

    def lazily(self, X):
        """Return class indices, and how often each feature was bought."""
        classes = np.zeros(len(X), dtype=np.intc)
        times = np.zeros((len(X), self.forest.n_features), dtype=np.intc)
        self.call("lazily", X, classes, times)
        return classes, times

    def numbers(self, X):
        """Return what a function that writes numbers writes."""
        out = np.zeros((len(X), self.n_numbers), dtype=self.number_dtype)
        self.call("all_numbers", X, out)
        return out
