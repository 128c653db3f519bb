"""Convert and compile models once, and remember how long it took.

A converter may take a minute over a large forest, a C compiler an hour, or the whole
memory: so that one runs in a process of its own that can be given up. What came out,
how long it took and what was given up is kept beside the model.

Run as ``python -m benchmarks.compare.compiling KIND MODEL OUT``, it is that process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# lleaves may live in another Python than spinney (it needs an old llvmlite), so this
# is handed over as text and uses nothing but lleaves.
LLEAVES = """
import sys, lleaves
model_file, out, one_block = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
model = lleaves.Model(model_file)
blocks = {"fblocksize": model.num_trees()} if one_block else {}
model.compile(cache=out, **blocks)
"""


class GaveUp(Exception):
    """The compiler did not finish in time, or failed; the text says which."""


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
    GaveUp
        If it takes too long (now, or earlier with at least this limit) or fails.
    """
    note = out.with_suffix(".json")
    known = json.loads(note.read_text()) if note.exists() else {}
    if out.exists() and "seconds" in known:
        return known["seconds"]
    too_long = f"compiling takes longer than {limit:.0f} s"
    if known.get("gave_up_after", 0.0) >= limit:
        raise GaveUp(too_long)
    started = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, complaint = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired as error:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        note.write_text(json.dumps({"gave_up_after": limit}))
        raise GaveUp(too_long) from error
    if child.returncode != 0 or not out.exists():
        lines = complaint.strip().splitlines() or [f"status {child.returncode}"]
        raise GaveUp("compiling failed: " + lines[-1])
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


def this_module(kind: str, model: Path, out: Path) -> list[str]:
    """Return the command that runs `main` below in a process of its own."""
    module = "benchmarks.compare.compiling"
    return [sys.executable, "-m", module, kind, str(model), str(out)]


def main() -> None:
    """Compile one model; the arguments say what, from where and to where."""
    kind, model, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if kind == "tl2cgen":
        import tl2cgen
        import treelite

        tl2cgen.export_lib(
            treelite.Model.deserialize(str(model)),
            toolchain="gcc",
            libpath=str(out),
            params={"parallel_comp": 32},
            nthread=os.cpu_count(),
        )
    else:
        from timber.codegen.c99 import C99Emitter, TargetSpec
        from timber.frontends import parse_model
        from timber.optimizer.pipeline import OptimizerPipeline
        from timber.runtime import TimberPredictor

        folder = out.parent / "timber"
        shutil.rmtree(folder, ignore_errors=True)
        parsed = OptimizerPipeline().run(parse_model(str(model), format_hint=kind)).ir
        C99Emitter(target=TargetSpec()).emit(parsed).write(folder)
        TimberPredictor.from_artifact(folder, build=True)
        shutil.copy(next(folder.glob("*timber_model.*")), out)


if __name__ == "__main__":
    main()
