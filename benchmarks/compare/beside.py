"""Other engines beside our own: admitted first, then timed in turn."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare import agreement, datasets
from benchmarks.compare.engines import failure
from benchmarks.compare.models import Trained
from benchmarks.compare.peers import PEERS, Engine, NotApplicable, Skip
from benchmarks.compare.timing import EngineTimer, run_in_turn

# Engines are compared with the model on so many rows at most.
MAX_CHECK_ROWS = 20_000

# An engine that would take longer for a batch is timed on a tenth of its rows; at these
# sizes the time per row no longer depends on their number.
MAX_CALL_SECONDS = 1.5

# Different batches, and different single rows, that are taken in turn.
N_BATCHES, N_SINGLE_ROWS = 4, 2_000

MIN_SAMPLES = 5

Predict = Callable[[Any], Any]
# What is timed, what it is given in turn, and the rows of each.
Prepared = tuple[Predict, Sequence[Any], int]
Say = Callable[[str], object]


@dataclass(frozen=True)
class Beside:
    """Engines that were admitted, and what is to be said about all of them.

    Parameters
    ----------
    peers : dict of str to dict
        For each engine whether it takes part, how well it agrees, or why it does not.
    engines : dict of str to Engine
        Those that take part.
    """

    peers: dict[str, dict[str, Any]]
    engines: dict[str, Engine]

    def time_batches(
        self,
        predicts: dict[str, Predict],
        X: NDArray[np.float32],
        n_rows: int,
        seconds: float,
        say: Say,
    ) -> list[dict[str, Any]]:
        """Time our own, and all engines, on batches of `n_rows` rows of `X`."""
        tiled = datasets.tiled(X, N_BATCHES * n_rows)
        batches = [np.ascontiguousarray(part) for part in np.split(tiled, N_BATCHES)]
        prepared: dict[str, Prepared] = {
            name: (predict, batches, n_rows) for name, predict in predicts.items()
        }
        for name, engine in self.engines.items():
            if not engine.takes(n_rows, 1):
                continue
            n_used = n_rows
            if self.peers[name]["row_seconds"] * n_rows > MAX_CALL_SECONDS:
                n_used //= 10
            parts = [engine.batch(part[:n_used]) for part in batches]
            prepared[name] = (engine.with_threads(1), parts, n_used)
        return _in_turn(prepared, n_rows, seconds, say)

    def time_single_rows(
        self,
        predicts: dict[str, Predict],
        X: NDArray[np.float32],
        seconds: float,
        say: Say,
    ) -> list[dict[str, Any]]:
        """Time our own that take one row, and all engines, row by row."""
        tiled = datasets.tiled(X, N_SINGLE_ROWS)
        rows = list(tiled)
        prepared: dict[str, Prepared] = {
            name: (predict, rows, 1) for name, predict in predicts.items()
        }
        for name, engine in self.engines.items():
            if engine.takes(1, 1):
                parts = [engine.batch(row[None]) for row in tiled]
                prepared[name] = (engine.with_threads(1), parts, 1)
        return _in_turn(prepared, 1, seconds, say)


def admit(
    trained: Trained,
    X: NDArray[np.float32],
    without: dict[str, str],
    say: Say,
    names: Collection[str] | None = None,
    single_rows: bool = False,
) -> Beside:
    """Prepare engines and compare their predictions with the model's.

    Parameters
    ----------
    trained : Trained
        The model.
    X : ndarray of shape (n_rows, n_features)
        Rows that the model has not seen.
    without : dict of str to str
        Engines to leave out, and why.
    say : callable
        Told the name of the engine in hand.
    names : collection of str, optional
        Engines that take part; all other than spinney by default.
    single_rows : bool, default=False
        Whether engines take part that predict single rows only.
    """
    X = X[:MAX_CHECK_ROWS]
    labels, probabilities = trained.labels(X), trained.probabilities(X)
    peers: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine] = {}
    for name, peer in PEERS.items():
        if peer.ours or (names is not None and name not in names):
            continue
        if name.endswith("single row") and not single_rows:
            continue
        say(name)
        try:
            if name in without:
                raise Skip(without[name])
            engine = peer.prepare(trained)
            found = agreement.measure(engine, X, labels, probabilities)
        except NotApplicable:
            continue
        except Skip as error:
            peers[name] = {"status": "skipped", "reason": str(error)}
            continue
        except Exception as error:
            # What an engine does wrong on these rows is a result too.
            traceback.print_exc()
            peers[name] = {"status": "skipped", "reason": failure(error)}
            continue
        engines[name] = engine
        peers[name] = {
            "status": "timed",
            "call": engine.call,
            "ours": False,
            "agreement": found.to_dict(),
            "row_seconds": found.seconds / found.n_rows,
        }
        print(
            f"  {name}: {found.n_labels_differ} of {found.n_rows} labels differ",
            flush=True,
        )
    say("")
    return Beside(peers, engines)


def _in_turn(
    prepared: dict[str, Prepared], n_rows: int, seconds: float, say: Say
) -> list[dict[str, Any]]:
    timers = {}
    for name, parts in prepared.items():
        say(name)
        timers[name] = EngineTimer(*parts)
    say("")
    run_in_turn(list(timers.values()), seconds, min_samples=MIN_SAMPLES)
    return [
        {"peer": name, "threads": 1, "batch": n_rows} | one.to_dict()
        for name, one in timers.items()
    ]
