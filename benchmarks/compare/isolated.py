"""Run one case in a process of its own, and go on without engines that end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run_isolated(
    module: str, job: dict[str, Any], title: str, n_threads: int = 1
) -> dict[str, Any]:
    """Return what a worker found out; leave out engines that bring it down.

    Parameters
    ----------
    module : str
        The worker, a module whose `main` is `work` below.
    job : dict
        What it is to do. `without` is added: engines to leave out, and why.
    title : str
        How messages call the job.
    n_threads : int, default=1
        Number of threads that OpenMP may start.
    """
    without: dict[str, str] = {}
    environment = os.environ | {
        "OMP_NUM_THREADS": str(n_threads),
        "OPENBLAS_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    while True:
        with tempfile.TemporaryDirectory() as folder:
            given, out = Path(folder) / "job.json", Path(folder) / "out.json"
            given.write_text(json.dumps(job | {"without": without}))
            command = [sys.executable, "-m", module, str(given), str(out)]
            status = subprocess.run(
                command, cwd=ROOT, env=environment, check=False
            ).returncode
            if status == 0:
                return json.loads(out.read_text())
            now = out.with_suffix(".now")
            culprit = now.read_text() if now.exists() else ""
        if not culprit or culprit in without:
            msg = f"the case {title} failed with status {status}; see above."
            raise SystemExit(msg)
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        without[culprit] = f"brought its process down ({name})"
        print(f"  {culprit} {without[culprit]}; once more without it", flush=True)


def work(
    run_case: Callable[[dict[str, Any], Callable[[str], object]], dict[str, Any]],
) -> None:
    """Read the job, work, write the results; the other side of `run_isolated`.

    Parameters
    ----------
    run_case : callable
        Takes the job, and what is to be told the name of the engine in hand, for the
        case that it brings all down; returns the results.
    """
    job, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    in_hand = out.with_suffix(".now")
    out.write_text(json.dumps(run_case(job, lambda name: in_hand.write_text(name))))
