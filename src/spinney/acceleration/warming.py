"""Compile all kernels ahead of time, so that the first prediction is not slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from spinney.base.progress import progress_for
from spinney.errors import InvalidArgumentError, SpinneyError, SpinneyWarning
from spinney.runtime import compiler
from spinney.runtime.choice import kernels_at_once
from spinney.runtime.compile_notice import not_mentioned
from spinney.runtime.kernel_folders import can_write, folder_to_write
from spinney.runtime.kernel_sources import PACKAGE
from spinney.runtime.processors import check_level, target_settings
from spinney.runtime.warming import engine_uses

Timings = list[tuple[str, float]]


def warm_up(
    into: str | os.PathLike[str] | None = None,
    *,
    cpu: str | None = None,
    verbose: Any = None,
) -> Timings:
    """Compile all kernels now, so that no later call has to wait for the compiler.

    Meant for the build of a container image, and for services whose first request must
    be fast. Kernels that are already on disk are loaded.

    Parameters
    ----------
    into : path or None, default=None
        Folder for the compiled kernels, created if needed. Processes that use them set
        ``SPINNEY_CACHE_DIR`` to it; for them it may be read-only. None means the
        folder that spinney uses by default: ``SPINNEY_CACHE_DIR`` if set, else beside
        the package, else in the user's cache.
    cpu : str or None, default=None
        Level of processors to compile for, so that one folder serves a fleet of mixed
        processors: ``"x86-64"``, ``"x86-64-v2"``, ``"x86-64-v3"``, ``"x86-64-v4"``, or
        on ARM ``"generic"``. Every processor that reaches the level finds the kernels,
        and no other. None means this very processor, which is fastest.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is called with the
        share of the work that is done. None draws one in interactive use, if it takes
        more than two seconds.

    Returns
    -------
    timings : list of (str, float)
        What was compiled or loaded, and the seconds it took.

    Raises
    ------
    InvalidArgumentError
        If `cpu` is not a level that this processor supports, or if `into` cannot be
        written to.
    SpinneyError
        If there is no compiler, or if it fails.

    Notes
    -----
    With `into` or `cpu`, kernels are compiled in a separate process, because this one
    would not write those that it has already loaded.

    Examples
    --------
    In the build of an image::

        spinney.warm_up("/opt/kernels", cpu="x86-64-v3")
    """
    if compiler.problem is not None:
        msg = (
            f"Nothing can be compiled here ({compiler.problem}). Install a Numba "
            "built for this Python; without it the plain engine is used, which needs "
            "no warm-up."
        )
        raise SpinneyError(msg)
    if into is None and cpu is None:
        show = progress_for(verbose, "compiling")
        with not_mentioned():
            return [(name, seconds) for name, seconds, _ in _run_uses(show)]
    environment = dict(os.environ)
    if into is not None:
        folder = Path(into).absolute()
        if not can_write(folder):
            msg = (
                f"into must be a folder that can be written to, got {str(into)!r}. "
                "Check that it is not a file, and its permissions."
            )
            raise InvalidArgumentError(msg)
        environment["SPINNEY_CACHE_DIR"] = str(folder)
    if cpu is not None:
        environment |= target_settings(check_level(cpu))
    return _run_in_child(environment, progress_for(verbose, "compiling"))


def start_compiling(names: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Compile the kernels of some uses in a process of its own, on another core.

    Parameters
    ----------
    names : sequence of str
        Which uses, by the names that `warm_up` returns. What they need of the engines
        is not compiled, unless that pays for itself.

    Returns
    -------
    process : subprocess.Popen or None
        To be ended by the caller; None if there is nothing to be gained from it.
    """
    alone = (os.cpu_count() or 1) < 2
    if alone or not compiler.compiles or folder_to_write() is None:
        return None
    return subprocess.Popen(
        [sys.executable, "-c", _SOME, *names],
        env=_with_this_package(dict(os.environ)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _with_this_package(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment in which a new process imports this very package."""
    paths = [str(PACKAGE.parent), environment.get("PYTHONPATH", "")]
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run_in_child(
    environment: dict[str, str], show: Callable[[float], None]
) -> Timings:
    """Run all uses in a new process."""
    timings = []
    # Not a pipe, which could be full while nobody reads it.
    with TemporaryFile("w+") as errors:
        with subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env=_with_this_package(environment),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, seconds, share = json.loads(line)
                timings.append((name, seconds))
                show(share)
        errors.seek(0)
        told = errors.read()
    if process.returncode != 0:
        last = told.strip().splitlines()[-1:] or [f"exit {process.returncode}"]
        msg = f"The process that compiles kernels has failed: {last[0]}"
        raise SpinneyError(msg)
    sys.stderr.write(told)  # warnings, such as that of a full disk
    return timings


_CHILD = """
import json
from spinney.acceleration import warming
for done in warming._run_uses():
    print(json.dumps(done), flush=True)
"""

_SOME = """
import sys
from spinney.acceleration import warming
uses = warming._uses()
for name in sys.argv[1:]:
    uses[name]()
"""


def _run_uses(
    show: Callable[[float], None] = lambda share: None,
) -> Iterator[tuple[str, float, float]]:
    """Run all uses in this process; yield name, seconds, and the share that is done."""
    uses = {**engine_uses(), **_uses()}
    for number, (name, use) in enumerate(uses.items(), start=1):
        start = time.perf_counter()
        with kernels_at_once():
            use()
        share = number / len(uses)
        show(share)
        yield name, time.perf_counter() - start, share


def _uses() -> dict[str, Callable[[], object]]:
    """Return small uses of everything else that is compiled, by name."""
    from sklearn.datasets import load_iris
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    from spinney.anytime import AnytimeForestClassifier
    from spinney.cascade import CascadeClassifier
    from spinney.pruning import BudgetedForestClassifier, FeatureCostPruner
    from spinney.readers import read_model
    from spinney.sequential import optimal_strategy
    from spinney.sequential.classifier import SequentialVotingClassifier
    from spinney.sequential.optimal import OBJECTIVES

    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    two = y < 2
    models = {
        "two classes": (RandomForestClassifier(5).fit(X[two], y[two]), X[two], y[two]),
        "several classes": (RandomForestClassifier(5).fit(X, y), X, y),
    }
    uses: dict[str, Callable[[], object]] = {}
    for objective in OBJECTIVES:
        uses[f"strategies, {objective}"] = partial(
            optimal_strategy, 11, 0.01, objective=objective
        )

    def use(make: Callable[[Any], Any], model: Any, rows: Any, labels: Any) -> None:
        with warnings.catch_warnings():
            # So few rows promise little, and this is never used.
            warnings.simplefilter("ignore", SpinneyWarning)
            classifier = make(read_model(model)).fit(rows, labels)
        classifier.predict(rows)
        if hasattr(classifier, "session"):
            classifier.session(rows[0]).step(1)
            classifier.predict_within(rows, 1.0)

    # A bound that so few rows can establish: candidates are tried, and all is compiled.
    settings: dict[str, Any] = {"max_disagreement": 0.2, "random_state": 0}
    kinds: dict[str, Callable[[Any], Any]] = {
        "hard votes": partial(SequentialVotingClassifier, voting="hard", **settings),
        "soft votes": partial(SequentialVotingClassifier, voting="soft", **settings),
        "cascade": partial(CascadeClassifier, **settings),
        "anytime": AnytimeForestClassifier,
    }
    if find_spec("ortools") is not None:
        kinds["pruning"] = partial(FeatureCostPruner, trade_off=0.001)
    for words, example in models.items():
        for kind, make in kinds.items():
            uses[f"{kind}, {words}"] = partial(use, make, *example)
    # Histogram boosting compares float64, for which steps are compiled once more.
    boosted = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    uses["anytime, float64 rows"] = partial(
        use, AnytimeForestClassifier, boosted, X.astype(np.float64), y
    )
    uses["budgeted forests"] = partial(
        BudgetedForestClassifier(budget=4.0, max_trees=2).fit, X, y
    )
    return uses
