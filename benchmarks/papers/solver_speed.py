"""How fast stopping strategies are found, beside a solver for linear programs.

``python -m benchmarks.papers.solver_speed`` measures and writes ``solver_speed.md``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array
from scipy.stats import hypergeom

import spinney
from benchmarks.papers import page

LEVEL = 1e-3
OBJECTIVES = ("minimean", "minimixed", "minimax")


def paper_program(n_voters: int, level: float) -> dict[str, Any]:
    """Return the paper's linear program for minimean with all `n` equally likely.

    Of the variables in the paper only ``pi`` (stop here) and ``pi_bar`` (go on) are
    kept, for states that can occur: ``p`` is their sum. That halves the work of the
    solver.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    level : float
        Largest mean disagreement.
    """
    size = (n_voters + 1) * (n_voters + 2) // 2
    i = np.repeat(np.arange(n_voters + 1), np.arange(1, n_voters + 2))
    j = np.arange(size) - i * (i + 1) // 2
    n = np.arange(n_voters + 1)
    # P(j of the first i votes are positive), on average over n; and that times the
    # chance that the majority of all is another.
    chance = hypergeom.pmf(j[:, None], n_voters, n, i[:, None]) / (n_voters + 1)
    differs = (2 * j[:, None] > i[:, None]) != (2 * n > n_voters)
    price, wrong = i * chance.sum(axis=1), (chance * differs).sum(axis=1)
    # One row per state: what comes in (from two states before) is what stops there or
    # goes on. The first state starts with 1; from the last step nobody goes on.
    states = np.arange(size)
    later = states[i > 0]
    before, row, share = [], [], []
    for positive in (0, 1):
        possible = later[(i[later] > j[later]) | (positive == 1)]
        possible = possible[(j[possible] > 0) | (positive == 0)]
        step, count = i[possible], j[possible]
        before.append((step - 1) * step // 2 + count - positive)
        row.append(possible)
        share.append(np.where(positive, count, step - count) / step)
    columns = np.concatenate([states, states + size, np.concatenate(before) + size])
    rows = np.concatenate([states, states, *row])
    values = np.concatenate([np.ones(2 * size), -np.concatenate(share)])
    flow = coo_array((values, (rows, columns)), shape=(size, 2 * size))
    start = np.zeros(size)
    start[0] = 1.0
    upper = np.concatenate([np.ones(size), np.where(i == n_voters, 0.0, 1.0)])
    nothing = np.zeros(size)
    return {
        "c": np.concatenate([price, nothing]),
        "A_ub": csr_array(np.concatenate([wrong, nothing])[None, :]),
        "b_ub": np.array([level]),
        "A_eq": flow.tocsr(),
        "b_eq": start,
        "bounds": np.column_stack([np.zeros(2 * size), upper]),
        "method": "highs",
    }


def shortest(call: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Return the least processor time of several calls in seconds, and the result."""
    best, result = np.inf, None
    for _ in range(times):
        started = time.process_time()
        result = call()
        best = min(best, time.process_time() - started)
    return best, result


def find(n_voters: int, objective: str) -> spinney.StoppingStrategy:
    """Return the strategy, as in the paper with no least number of votes."""
    return spinney.optimal_strategy(n_voters, LEVEL, objective=objective, min_votes=0)


def against_highs(n_voters: int) -> list[str]:
    """Return the lines of a table: spinney beside HiGHS on the paper's program."""
    program = paper_program(n_voters, LEVEL)
    seconds, solved = shortest(lambda: linprog(**program), 3)
    find(n_voters, "minimean")  # compiles
    ours, strategy = shortest(lambda: find(n_voters, "minimean"), 30)
    return [
        f"### Minimean, {n_voters} voters, {LEVEL:g} disagreement",
        "",
        "| | expected votes | seconds | ratio |",
        "|---|---:|---:|---:|",
        f"| HiGHS (scipy.optimize.linprog), {program['A_eq'].shape[1]:,} variables | "
        f"{solved.fun:.9f} | {seconds:.3f} | {seconds / ours:,.0f} |",
        f"| spinney, proof included | {strategy.expected_votes:.9f} | {ours:.5f} | 1 |",
    ]


def one(n_voters: int, objective: str) -> None:
    """Print time, peak memory and result of one strategy, in a process of its own."""
    find(11, objective)  # compiles, or loads what is compiled
    before = peak_memory()
    seconds, strategy = shortest(lambda: find(n_voters, objective), 1)
    print(
        f"| {objective} | {n_voters:,} | {strategy.expected_votes:.6f} | "
        f"{strategy.gap:.1e} | {seconds:.2f} | {before:.0f} | {peak_memory():.0f} |"
    )


def peak_memory() -> float:
    """Return the most memory that this process has had so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux: unlike what `resource` tells, this does not count the parent process.
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.solver_speed", description=__doc__
    )
    parser.add_argument(
        "--one", nargs=2, metavar=("N", "OBJECTIVE"), help="measure a single strategy"
    )
    options = parser.parse_args()
    if options.one:
        one(int(options.one[0]), options.one[1])
        return
    lines = [page.machine_line(), "", *against_highs(101), ""]
    lines += [
        f"### Larger votes, {LEVEL:g} disagreement",
        "",
        "| objective | voters | expected votes | proven gap | seconds | "
        "peak MiB before | and after |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    cases = [(1001, objective) for objective in OBJECTIVES] + [(10001, "minimean")]
    for n_voters, objective in cases:
        # A process of its own: peak memory is that of this one strategy.
        command = [sys.executable, "-m", "benchmarks.papers.solver_speed"]
        done = subprocess.run(
            [*command, "--one", str(n_voters), objective],
            cwd=page.FOLDER.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        lines.append(done.stdout.strip())
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(text)
    page.put_results(page.FOLDER / "solver_speed.md", text)


if __name__ == "__main__":
    main()
