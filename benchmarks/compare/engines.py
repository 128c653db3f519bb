"""What an engine is, and the list of all of them.

An adapter is a function that takes a `Trained` model and returns an `Engine`, or
raises `Skip` with the reason. All engines return class probabilities, one column per
class or the second class alone, except where `Engine.returns` says something else.
"""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.models import Trained

ALL = ("sklearn", "lightgbm", "xgboost")


class Skip(Exception):
    """An engine that cannot take part; the text says why."""


class NotApplicable(Skip):
    """An engine that does not take models of this library at all."""


def failure(error: Exception) -> str:
    """Return an engine's error as the reason why it does not take part."""
    lines = str(error).strip().splitlines() or [""]
    return f"failed: {type(error).__name__}: {lines[0][:200].rstrip('.')}"


@dataclass(frozen=True)
class Engine:
    """A model made ready in one engine.

    Parameters
    ----------
    with_threads : callable
        Takes a number of threads and returns the function that is timed: from a batch
        of rows to predictions. Global settings are made here, outside the timed part.
    dtype : float32 or float64
        Type of rows that the engine takes without converting them. Rows are brought
        into it beforehand, so no engine pays for a conversion.
    shape : callable, optional
        Further change to a batch outside the timed part, for engines that take one
        row as a one-dimensional array.
    labels : callable, optional
        The engine's own labels. By default the class of the largest probability.
    returns : {"probabilities", "label"}
        What the timed function returns.
    only_batch : int, optional
        The only batch size that the engine takes.
    max_threads : int, optional
        The largest number of threads that the engine can use.
    prepare_seconds : float, optional
        How long an earlier run took to compile what this one found in its cache.
    call : str
        The call that is timed, for people to read.
    is_shareable : bool, default=True
        Whether several threads may call the timed function at once.
    """

    with_threads: Callable[[int], Callable[[Any], Any]]
    call: str
    dtype: type[np.floating] = np.float32
    shape: Callable[[NDArray], Any] | None = None
    labels: Callable[[NDArray], NDArray] | None = None
    returns: str = "probabilities"
    only_batch: int | None = None
    max_threads: int | None = None
    prepare_seconds: float | None = None
    is_shareable: bool = True

    def batch(self, rows: NDArray) -> Any:
        """Return rows in the form in which the engine takes them."""
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        return rows if self.shape is None else self.shape(rows)

    def takes(self, n_rows: int, n_threads: int) -> bool:
        """Whether the engine can be called this way."""
        return self.only_batch in (None, n_rows) and (
            self.max_threads is None or n_threads <= self.max_threads
        )


@dataclass(frozen=True)
class Peer:
    """An engine by name, and how a model gets into it."""

    name: str
    packages: tuple[str, ...]
    libraries: tuple[str, ...]
    adapt: Callable[[Trained], Engine]
    ours: bool = False

    def prepare(self, trained: Trained) -> Engine:
        """Return the model in this engine, or raise `Skip` with the reason."""
        if trained.library not in self.libraries:
            msg = f"takes models of {', '.join(self.libraries)} only"
            raise NotApplicable(msg)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.adapt(trained)
        except Skip:
            raise
        except ImportError as error:
            msg = f"not installed ({error})"
            raise Skip(msg) from error
        # A converter may fail in any way; the comparison goes on and says how.
        except Exception as error:
            raise Skip(failure(error)) from error

    def version(self) -> str | None:
        """Return the version that is installed, if any."""
        for package in self.packages:
            try:
                return f"{package} {importlib.metadata.version(package)}"
            except importlib.metadata.PackageNotFoundError:
                continue
        return None


# All engines by name, in the order in which adapters are entered.
PEERS: dict[str, Peer] = {}


def peer(
    name: str,
    packages: str | tuple[str, ...],
    libraries: tuple[str, ...] = ALL,
    *,
    ours: bool = False,
) -> Callable[[Callable[[Trained], Engine]], Callable[[Trained], Engine]]:
    """Enter an adapter into `PEERS`."""

    def enter(adapt: Callable[[Trained], Engine]) -> Callable[[Trained], Engine]:
        names = (packages,) if isinstance(packages, str) else packages
        PEERS[name] = Peer(name, names, libraries, adapt, ours)
        return adapt

    return enter
