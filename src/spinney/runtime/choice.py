"""Which engine is used: compiled kernels, or the plain engine that needs no compiler.

Both give the same predictions to the last bit, so the choice only affects time. Kernels
are used once they are compiled or loaded. Until then the plain engine is used, as long
as its work so far and the current call take less time than compiling the kernels would
(less than a moment if an earlier process has kept them on disk). So a script that
predicts a thousand rows does not wait for kernels, and a process that predicts for long
soon has them. The plain engine is also used where nothing can be compiled.

`config`, or ``SPINNEY_ENGINE`` in the environment, can force one of the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from spinney.errors import InvalidArgumentError, SpinneyError
from spinney.runtime import compiler
from spinney.runtime.compile_notice import anything_is_lost
from spinney.runtime.kernel_folders import folder_to_write, folders_to_read
from spinney.runtime.processors import reached_levels, target_name

Answer = TypeVar("Answer")

ENGINES = ("auto", "compiled", "plain")
VARIABLE = "SPINNEY_ENGINE"

# Compiling the kernels of one kind takes about as many seconds.
COMPILE_SECONDS = 5.0
# Kernels that are kept on disk are loaded when there is more to do than this. Loading
# takes ten times as long, but a process that predicts repeatedly is likely to go on.
LOAD_SECONDS = 0.02
# One row on its way down one level of one tree, in the plain engine.
SECONDS_PER_STEP = 3e-9


class Config:
    """Settings of this process.

    Attributes
    ----------
    engine : {"auto", "compiled", "plain"}
        What evaluates trees: compiled kernels, or the plain engine in NumPy, which
        needs no compiler. The predictions are the same to the last bit. ``"auto"``
        uses kernels once they are compiled, and compiles them when there is enough work
        to justify it. The initial value is that of ``SPINNEY_ENGINE`` in the
        environment, if set.
    """

    def __init__(self) -> None:
        self._engine: str | None = None

    def __repr__(self) -> str:
        return f"<spinney.config: engine={self.engine!r}>"

    @property
    def engine(self) -> str:
        """What evaluates trees."""
        if self._engine is None:
            given = os.environ.get(VARIABLE) or "auto"
            self._engine = _checked(given, f"{VARIABLE} in the environment")
        return self._engine

    @engine.setter
    def engine(self, engine: str) -> None:
        self._engine = _checked(engine, "config.engine")


def _checked(engine: str, what: str) -> str:
    if engine not in ENGINES:
        msg = f"{what} must be one of {', '.join(ENGINES)}, got {engine!r}."
        raise InvalidArgumentError(msg)
    return engine


config = Config()


class Kernels(NamedTuple):
    """Kernels that are compiled together, for rows and sums of certain types."""

    what: str
    row_dtype: str
    sum_dtype: str = "float64"

    def mark(self, processor: str) -> str:
        """Return the name of the file that says that they are kept on disk."""
        return f"{' '.join(self)} {processor}.kept".replace(" ", "-")


# What the plain engine has spent in place of kernels, in seconds. Without a lock, which
# a fork could copy while it is held: at worst some milliseconds are not counted.
_spent: dict[Kernels, float] = {}
_ready: set[Kernels] = set()
_broken: list[BaseException] = []  # why nothing is compiled any more, if so
_insisted: ContextVar[str | None] = ContextVar("spinney_engine", default=None)


def step_seconds(n_rows: int, n_levels: int) -> float:
    """Return about how long the plain engine takes.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_levels : int
        Number of levels of all trees together.
    """
    return SECONDS_PER_STEP * n_rows * n_levels


@contextmanager
def kernels_at_once() -> Iterator[None]:
    """Compile kernels before anything is timed, however little work there is.

    What `config` insists on, and machines that cannot compile, are left as they are.
    """
    token = _insisted.set("compiled")
    try:
        yield
    finally:
        _insisted.reset(token)


def plain_serves(kernels: Kernels, seconds: float = 0.0) -> bool:
    """Whether the plain engine is to serve in place of kernels.

    Parameters
    ----------
    kernels : Kernels
        What would be needed otherwise.
    seconds : float, default=0.0
        About how long the plain engine takes for the current call.
    """
    engine = config.engine
    if engine == "auto":
        if not compiler.compiles or _broken:
            return True
        engine = _insisted.get() or engine
    if engine == "compiled" and compiler.problem is not None:
        msg = (
            "spinney.config or SPINNEY_ENGINE requires compiled kernels, but nothing "
            f"can be compiled here ({compiler.problem}). Install a Numba that supports "
            'this Python, or use engine="auto".'
        )
        raise SpinneyError(msg)
    if engine != "auto":
        return engine == "plain"
    if kernels in _ready:
        return False
    work = _spent.get(kernels, 0.0) + seconds
    if work < LOAD_SECONDS:
        return True
    return work < COMPILE_SECONDS and not _are_kept(kernels)


def are_ready(kernels: Kernels) -> bool:
    """Whether kernels have been used in this process, and stay in use.

    Parameters
    ----------
    kernels : Kernels
        What is needed.
    """
    return kernels in _ready and may_go_on()


def may_go_on() -> bool:
    """Whether kernels that have run in this process are to be used again."""
    return not _broken and _insisted.get() != "plain" and config.engine != "plain"


def either(
    kernels: Kernels,
    seconds: float,
    compiled: Callable[[], Answer],
    plain: Callable[[], Answer],
) -> Answer:
    """Evaluate by kernels or by the plain engine, whichever is to serve.

    Parameters
    ----------
    kernels : Kernels
        What `compiled` needs.
    seconds : float
        About how long `plain` takes.
    compiled, plain : callable
        Return the same.

    Returns
    -------
    answer : object
        What they return.
    """
    if not plain_serves(kernels, seconds):
        try:
            answer = compiled()
        except Exception as error:
            if config.engine == "compiled" or not _is_of_the_compiler(error):
                raise
            _broken.append(error)
        else:
            _keep_in_mind(kernels)
            return answer
    token = _insisted.set("plain")
    begin = time.perf_counter()
    try:
        return plain()
    finally:
        _insisted.reset(token)
        spent = time.perf_counter() - begin
        _spent[kernels] = _spent.get(kernels, 0.0) + spent


def _keep_in_mind(kernels: Kernels) -> None:
    """Remember, here and on disk, that kernels are ready."""
    if kernels in _ready or not compiler.compiles:
        return
    _ready.add(kernels)
    folder = folder_to_write()
    # An empty file has room on a full disk, too, where machine code has none.
    if folder is not None and not anything_is_lost():
        with suppress(OSError):
            (folder / kernels.mark(target_name())).touch()


def _are_kept(kernels: Kernels) -> bool:
    """Whether an earlier process has kept kernels on disk that run here."""
    marks = [kernels.mark(name) for name in (target_name(), *reached_levels())]
    return any(
        (folder / mark).exists() for folder in folders_to_read() for mark in marks
    )


def _is_of_the_compiler(error: BaseException) -> bool:
    """Whether an error was raised by Numba and not by what it has compiled."""
    trace = error.__traceback__
    package = ""
    while trace is not None:
        package = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        trace = trace.tb_next
    return package in ("numba", "llvmlite")
