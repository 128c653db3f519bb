"""What importing spinney loads and costs, and which module may import which."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import spinney

PACKAGE = Path(spinney.__file__).parent

# From the top down: a module imports from its own layer or from those below it.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"report", "export", "integrations"},
    {"acceleration"},
    {"sequential", "cascade", "anytime", "pruning"},
    {"base", "ordering"},
    {"calibration"},
    {"runtime", "readers", "persistence"},
    {"forest"},
    {"errors", "_version"},
)
ROOMS = LAYERS[4]
# A forest runs itself, classifiers report on themselves, and rows on an engine are
# drawn and counted there: loaded on use.
UPWARDS = {("forest", "runtime"), ("base", "report"), ("calibration", "integrations")}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The one table that names modules of any layer by strings: what kinds of files there
# are, and which class each kind is of.
TABLE_OF_KINDS = "persistence.kinds"

# Optional libraries, and the place or places where each may be imported: on use, except
# in the command line, which needs its own at once.
HOME = {
    "catboost": ("readers.catboost", "cli.peers"),
    "dask": "integrations.dask",
    "jinja2": "report",
    "lightgbm": ("readers.lightgbm", "cli.peers"),
    "matplotlib": "base.axes",
    "mlflow": "integrations.mlflow",
    "ortools": "pruning",
    "narwhals": ("forest.frame_kinds", "forest.frames"),
    "pyarrow": ("cli", "forest.frames", "integrations.spark"),
    "pyspark": "integrations.spark",
    "ray": "integrations.ray",
    "rich": "cli",
    "typer": "cli",
    "xgboost": ("readers.xgboost", "cli.peers"),
}


def run_python(code):
    """Run `code` in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_type_checking(node):
    """Whether `node` is ``if TYPE_CHECKING:``, which never runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(tree):
    """Yield (module, whether inside a function, line) for every import that runs."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            if is_type_checking(child):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, inside, child.lineno
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative imports hide the direction"
                if child.module == "spinney":
                    for alias in child.names:
                        yield f"spinney.{alias.name}", inside, child.lineno
                else:
                    yield child.module, inside, child.lineno
            elif isinstance(child, ast.Constant) and is_module_name(child.value):
                yield child.value.partition(":")[0], True, child.lineno
            yield from walk(
                child,
                inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)),
            )

    yield from walk(tree, False)


def is_module_name(value):
    """Whether a constant names a module of spinney, as `import_module` takes it."""
    if not isinstance(value, str) or not re.fullmatch(r"spinney(\.\w+)+(:\w+)?", value):
        return False
    path = PACKAGE.parent.joinpath(*value.partition(":")[0].split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def own_modules():
    """Yield (dotted name below spinney, path) of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        yield ".".join(parts), path


MODULES = dict(own_modules())


@cache
def tree_of(module):
    """Return the syntax tree of a module."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def test_importing_spinney_loads_no_optional_library():
    code = f"""
import sys, sklearn
before = set(sys.modules)  # scikit-learn loads pandas, and with it pyarrow, if it can
import spinney
print(*[name for name in {list(HOME)} if name in set(sys.modules) - before])
"""
    assert run_python(code).split() == []


def test_importing_spinney_is_quick():
    code = """
import time, numpy, sklearn
start = time.process_time()
import spinney
print(time.process_time() - start)
"""
    # One quick run out of several will do: the machine may be busy with other things.
    assert any(float(run_python(code)) < 0.3 for _ in range(8))


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_imports_point_downwards(module):
    top = module.partition(".")[0]
    assert top in RANK, f"{module} has no layer: give it one in LAYERS, and in the docs"
    for name, inside, line in imports_of(tree_of(module)):
        root, _, rest = name.partition(".")
        if root != "spinney" or (module == TABLE_OF_KINDS and inside):
            continue
        target = rest.partition(".")[0]
        where = f"{module}, line {line}, imports {name}"
        if target not in RANK:
            # The package itself, or a name of it: for the user-facing layer only.
            assert top == "cli", where
        elif (top, target) in UPWARDS:
            assert inside, f"{where}: only inside a function"
        else:
            assert RANK[target] >= RANK[top], where
            assert target == top or not {target, top} <= ROOMS, where


@pytest.mark.parametrize("module", MODULES)
def test_optional_libraries_are_imported_in_their_place_only(module):
    for name, inside, line in imports_of(tree_of(module)):
        root = name.partition(".")[0]
        if root not in HOME:
            continue
        where = f"{module}, line {line}, imports {name}"
        home = HOME[root]
        assert module.startswith(home), where
        assert inside or home == "cli", f"{where}: only inside a function"


def test_the_check_of_imports_sees_what_it_should():
    source = """
import typer
from spinney import forest
if TYPE_CHECKING:
    import lightgbm
def read():
    import xgboost.core
kinds = {"cascade": "spinney.cascade.classifier:CascadeClassifier"}
"""
    assert list(imports_of(ast.parse(source))) == [
        ("typer", False, 2),
        ("spinney.forest", False, 3),
        ("xgboost.core", True, 7),
        ("spinney.cascade.classifier", True, 8),
    ]
