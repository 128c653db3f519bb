"""The same answers on every processor, and from every compiler."""

from __future__ import annotations

import numpy as np
import pytest

import spinney
from export.native import need, write
from export.targets import TARGETS, avr, run
from export.test_anytime import answers_after_every_step
from report.kinds import fitted
from spinney.export.program import program_of
from spinney.export.quantisation import quantise
from spinney.export.simulation import early_answers, final_answers
from strategies import random_forest, random_rows

pytestmark = pytest.mark.targets

CASES = {
    "fast votes": ("hard votes", {}),
    "fast scores": ("soft votes", {}),
    "packed scores": ("thresholds", {"layout": "packed"}),
    "several": ("soft votes of several", {}),
    "dropped classes": ("thresholds of several", {}),
    "packed dropped classes": ("thresholds of several", {"layout": "packed"}),
    "bins": ("fan", {}),
    "anytime": ("anytime", {}),
    "packed anytime": ("anytime", {"layout": "packed"}),
    "pruned": ("pruner", {"layout": "packed"}),
    "integer votes": ("hard votes", {"arithmetic": "integer"}),
    "integer scores": ("thresholds", {"arithmetic": "integer"}),
    "integer several": ("soft votes of several", {"arithmetic": "integer"}),
    "integer dropped classes": ("thresholds of several", {"arithmetic": "integer"}),
    "integer anytime": ("anytime", {"arithmetic": "integer"}),
    "categories": ("categories", {}),
    "packed categories": ("categories", {"layout": "packed"}),
    "float64 rows": ("float64 rows", {}),
    "integer rows": ("integer rows", {"input_type": "int16", "arithmetic": "integer"}),
}


def case(name):
    """Return an object, rows, options, and what the code has to print."""
    kind, options = CASES[name]
    if kind in ("categories", "float64 rows", "integer rows"):
        settings = {"task": "sum score", "n_trees": 9, "depth": 12, "n_features": 5}
        if kind == "categories":
            settings |= {"categories": "floor", "zero_is_missing": True}
        if kind == "float64 rows":
            settings |= {"input_dtype": "float64", "sum_dtype": "float32"}
        obj = random_forest(5, **settings)
        X = random_rows(obj, 120, 1)
        if kind == "integer rows":
            X = np.random.default_rng(0).integers(-9, 9, size=(120, 5))
    else:
        obj, _, X, _ = fitted(kind)
        X = np.concatenate([X[:100], np.where(np.isfinite(X[:20]), -X[:20], 0)])
        X[3, 1], X[4, 2], X[5, 3] = np.nan, np.inf, -np.inf
    if kind in ("pruner",):
        X = np.nan_to_num(X, posinf=1e30, neginf=-1e30)
    if options.get("arithmetic") == "integer":
        options = options | {"X": X}
    return obj, X, options, expected(obj, X, options)


def expected(obj, X, options):
    """Return the numbers that a program has to print, as Python finds them."""
    forest = getattr(obj, "forest_", obj)
    rows, program = forest.engine.rows(X), program_of(obj)
    order = getattr(obj, "order_", None)
    counts = np.full(len(X), forest.n_trees)
    columns = []
    if options.get("arithmetic") == "integer":
        import warnings

        from spinney.export.c import make_source

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            width = make_source(program, "m", "m.h", **options)[1].width
        made = quantise(program, width)
        if made.steps is not None:
            return None  # the native code is what others are compared with
        classes, counts = early_answers(
            program.ordered, made.sums, rows, program.n_classes
        )
    elif program.steps is not None:
        states = answers_after_every_step(forest, order, rows)
        classes, columns = states[:, -1], list(states.T)
    elif program.rule is not None:
        classes, counts = obj._engine.evaluate(rows)
    else:
        classes = forest.winners(forest.engine.raw(rows))
    return np.stack([classes, counts, *columns], axis=1).ravel()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_answers(target, name, tmp_path):
    obj, X, options, wanted = case(name)
    found = TARGETS[target](obj, X, tmp_path, **options)
    if wanted is None:
        wanted = TARGETS["gcc"](obj, X, tmp_path, **options)
        rows = obj.forest_.engine.rows(X)
        width = write(obj, tmp_path, **options)[1].width
        steps = quantise(program_of(obj), width).steps
        per_row = wanted.reshape(len(X), -1)
        assert np.array_equal(per_row[:, -1], final_answers(obj.forest_, steps, rows))
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    "name",
    [
        "integer votes",
        "integer scores",
        "integer rows",
        "integer dropped classes",
        "integer anytime",
    ],
)
def test_avr(name, tmp_path):
    obj, X, options, wanted = case(name)
    # Eight kilobytes of memory and short pointers: a small model and some rows.
    some = X[:40]
    found = avr(obj, some, tmp_path, **options)
    if wanted is None:
        wanted = TARGETS["gcc"](obj, some, tmp_path, **options)
    else:
        wanted = wanted.reshape(len(X), -1)[:40].ravel()
    assert np.array_equal(found, wanted)


def test_doubles_are_refused_where_there_are_none(tmp_path):
    need("avr-gcc")
    write(random_forest(0, task="sum score", input_dtype="float64"), tmp_path)
    with pytest.raises(AssertionError, match="needs_64_bit_doubles"):
        run(["avr-gcc", "-mmcu=atmega2560", "-std=c99", "-c", "m.c"], tmp_path)


def test_fast_arithmetic_is_refused(tmp_path):
    need("gcc")
    write(random_forest(0), tmp_path)
    with pytest.raises(AssertionError, match="without fast math"):
        run(["gcc", "-std=c99", "-ffast-math", "-c", "m.c"], tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_cppcheck(name, tmp_path):
    need("cppcheck")
    obj, _, options, _ = case(name)
    write(obj, tmp_path, **options)
    command = ["cppcheck", "--std=c99", "--error-exitcode=1", "--quiet"]
    command += ["--enable=warning,portability,performance", "--inconclusive", "m.c"]
    run(command, tmp_path)


@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
def test_a_million_nodes_compile_in_seconds(arithmetic, tmp_path):
    import resource

    need("gcc")
    forest = random_forest(0, n_trees=64, depth=8000, shape="grown", n_features=20)
    assert forest.n_nodes > 1_000_000
    X = random_rows(forest.take([0]), 50)
    options = {"X": X} if arithmetic == "integer" else {}
    write(forest, tmp_path, arithmetic=arithmetic, **options)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(["gcc", "-std=c99", "-O2", "-c", "m.c"], tmp_path)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 30


def test_needs_no_library(tmp_path):
    """Nothing but what compilers call themselves is left to be linked."""
    need("gcc")
    need("nm")
    for name in ("fast scores", "packed anytime", "integer scores"):
        obj, _, options, _ = case(name)
        write(obj, tmp_path, **options)
        run(["gcc", "-std=c99", "-ffreestanding", "-O2", "-c", "m.c"], tmp_path)
        undefined = run(["nm", "-u", "m.o"], tmp_path).split()
        assert set(undefined) <= {"U", "memcpy", "memset", "__stack_chk_fail"}
        sections = run(["nm", "m.o"], tmp_path).split()
        assert not {"d", "D", "b", "B", "C"} & set(sections)  # no data that can change
    assert spinney.__version__
