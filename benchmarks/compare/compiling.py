"""Convert and compile models once, and remember how long it took.

A converter may take a minute over a large forest, a C compiler an hour, or the whole
memory: so that one runs in a process of its own that can be given up. What came out,
how long it took and what was given up is kept beside the model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spinney.cli.conversions import (
    CannotTakePartError,
    CompilerTimeoutError,
    run_apart,
)

# Timber's own steps from a model file to a library: arguments are the kind of the
# model, its file and the library to write.
COMPILE_TIMBER = """
import shutil, sys
from pathlib import Path
from timber.codegen.c99 import C99Emitter, TargetSpec
from timber.frontends import parse_model
from timber.optimizer.pipeline import OptimizerPipeline
from timber.runtime import TimberPredictor
kind, model, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
folder = out.parent / "timber"
shutil.rmtree(folder, ignore_errors=True)
parsed = OptimizerPipeline().run(parse_model(model, format_hint=kind)).ir
C99Emitter(target=TargetSpec()).emit(parsed).write(folder)
TimberPredictor.from_artifact(folder, build=True)
shutil.copy(next(folder.glob("*timber_model.*")), out)
"""


def compiled(command: list[str], out: Path, limit: float) -> float:
    """Run `command`, which makes the file `out`, and return the seconds it took.

    Parameters
    ----------
    command : list of str
        What to run.
    out : path
        The file it makes. If an earlier run made it, nothing is run.
    limit : float
        Seconds after which it is stopped, with all processes that it started.

    Raises
    ------
    CannotTakePartError
        If it takes too long (now, or earlier with at least this limit) or fails.
    """
    note = out.with_suffix(".json")
    known = json.loads(note.read_text()) if note.exists() else {}
    if out.exists() and "seconds" in known:
        return known["seconds"]
    if known.get("gave_up_after", 0.0) >= limit:
        raise CompilerTimeoutError(limit)
    started = time.perf_counter()
    try:
        run_apart(command, limit)
    except CompilerTimeoutError:
        note.write_text(json.dumps({"gave_up_after": limit}))
        raise
    if not out.exists():
        msg = "compiling failed: it wrote nothing"
        raise CannotTakePartError(msg)
    seconds = time.perf_counter() - started
    note.write_text(json.dumps({"seconds": seconds}))
    return seconds


def converted(
    path: Path,
    make: Callable[[], Any],
    save: Callable[[Any, Path], object],
    load: Callable[[Path], Any],
) -> tuple[Any, float]:
    """Return what `make` makes, from the file `path` if an earlier run saved it there.

    Parameters
    ----------
    path : path
        File or folder.
    make : callable
        Converts the model.
    save, load : callable
        How the outcome is written to a path and read from it.

    Returns
    -------
    outcome : object
        The converted model.
    seconds : float
        How long `make` took when it was called.
    """
    note = path.with_suffix(".json")
    if note.exists() and path.exists():
        return load(path), json.loads(note.read_text())["seconds"]
    started = time.perf_counter()
    outcome = make()
    seconds = time.perf_counter() - started
    save(outcome, path)
    note.write_text(json.dumps({"seconds": seconds}))
    return outcome, seconds
