"""What ``spinney demo`` shows: the four ways of asking less, each on a small model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.acceleration.timing import Timer, run_in_turn

if TYPE_CHECKING:
    from spinney.report import Report

MAX_DISAGREEMENT = 0.002
CONFIDENCE = 0.95
N_TREES = 200
N_TRAINED, N_GIVEN, N_NEW = 6_000, 15_000, 15_000
N_SINGLE_ROWS = 10
N_REPEATS = 3


@dataclass(frozen=True)
class Shown:
    """What came out of one way of asking less.

    Parameters
    ----------
    name : str
        The way of asking.
    model : str
        What was trained, on which data.
    asked, in_all : float
        Trees, steps or features asked for a row on average, and how many there are.
    unit : {"trees", "steps", "features"}
        What these are.
    promised : float or None
        Bound on the disagreement; None where there is none.
    disagreement : float
        Share of new rows answered otherwise than by the full model.
    n_different : int
        New rows that spinney, asking everything, answers otherwise than the model.
    n_new : int
        Number of new rows.
    scikit_learn, all_trees, spinney : float
        Microseconds per row in a batch: the model itself, all trees, asking less.
    single_scikit_learn, single_spinney : float
        Microseconds for a row that comes alone.
    report : Report
        More about it.
    """

    name: str
    model: str
    asked: float
    in_all: float
    unit: str
    promised: float | None
    disagreement: float
    n_different: int
    n_new: int
    scikit_learn: float
    all_trees: float
    spinney: float
    single_scikit_learn: float
    single_spinney: float
    report: Report


def rooms() -> dict[str, Callable[[], Shown]]:
    """Return what shows each way of asking less, by what it is doing."""
    made = _made_rows()
    shows: dict[str, Callable[[], Shown]] = {
        "Votes stopped early, on a random forest": lambda: votes(*made),
        "A cascade, on gradient boosting": lambda: cascade(*made),
        "An anytime forest, stopped after a quarter of its steps": anytime,
    }
    if find_spec("ortools") is not None:
        shows["A forest pruned to a budget of features"] = pruning
    return shows


def votes(rows: NDArray[np.float32], labels: NDArray[np.intp]) -> Shown:
    """Stop the votes of a random forest early.

    Parameters
    ----------
    rows, labels : ndarray
        What to train on, to calibrate on and to ask about.
    """
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(N_TREES, max_depth=10, random_state=0, n_jobs=-1)
    words = f"random forest of {N_TREES} trees, made data"
    return _accelerated("votes stopped early", words, model, rows, labels, "sequential")


def cascade(rows: NDArray[np.float32], labels: NDArray[np.intp]) -> Shown:
    """Stop the sum of boosted trees early.

    Parameters
    ----------
    rows, labels : ndarray
        What to train on, to calibrate on and to ask about.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=N_TREES, learning_rate=0.05, early_stopping=False, random_state=0
    )
    words = f"gradient boosting with {N_TREES} trees, made data"
    return _accelerated("cascade", words, model, rows, labels, "cascade")


def anytime() -> Shown:
    """Stop a forest after a quarter of its steps."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator

    import spinney

    rows, labels = load_digits(return_X_y=True)
    rows = rows.astype(np.float32)
    trained, ordered, new = np.array_split(_shuffled(len(rows)), 3)
    model = RandomForestClassifier(25, max_depth=8, random_state=0)
    model.fit(rows[trained], labels[trained])
    stepping: spinney.AnytimeForestClassifier = spinney.AnytimeForestClassifier(
        FrozenEstimator(model), random_state=0
    ).fit(rows[ordered], labels[ordered])
    n_steps = len(stepping.order_)
    asked = n_steps // 4
    session_rows = rows[new]

    def one_row(row: Any) -> Any:
        return stepping.predict(row.reshape(1, -1), max_steps=asked)

    return _shown(
        "anytime forest",
        "random forest of 25 trees, handwritten digits",
        model,
        stepping,
        session_rows,
        stepping.predict(session_rows, max_steps=asked),
        asked=float(asked),
        in_all=float(n_steps),
        unit="steps",
        promised=None,
        predict=lambda some: stepping.predict(some, max_steps=asked),
        predict_one=one_row,
        report=stepping.report(session_rows, labels[new]),
    )


def pruning() -> Shown:
    """Prune a forest so that a row needs fewer features."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator

    import spinney

    rows, labels = load_breast_cancer(return_X_y=True)
    rows = rows.astype(np.float32)
    trained, pruned, new = np.array_split(_shuffled(len(rows)), 3)
    model = RandomForestClassifier(30, max_depth=6, random_state=0)
    model.fit(rows[trained], labels[trained])
    pruner: spinney.FeatureCostPruner = spinney.FeatureCostPruner(
        FrozenEstimator(model), budget=12.0
    ).fit(rows[pruned], labels[pruned])
    predictor = pruner.forest_.predictor()
    return _shown(
        "pruned forest",
        "random forest of 30 trees, breast cancer",
        model,
        pruner,
        rows[new],
        pruner.predict(rows[new]),
        asked=float(np.mean(pruner.feature_cost(rows[new]))),
        in_all=float(rows.shape[1]),
        unit="features",
        promised=None,
        predict=pruner.predict,
        predict_one=predictor,
        report=pruner.report(rows[new], labels[new]),
    )


# ---------------------------------------------------------------- what they share


def _accelerated(
    name: str,
    words: str,
    model: Any,
    rows: NDArray[np.float32],
    labels: NDArray[np.intp],
    method: str,
) -> Shown:
    """Train a model on some rows, accelerate it with others, and ask about the rest."""
    import spinney

    trained, given, new = np.split(np.arange(len(rows)), [N_TRAINED, -N_NEW])
    model.fit(rows[trained], labels[trained])
    fast = spinney.accelerate(
        model,
        rows[given],
        max_disagreement=MAX_DISAGREEMENT,
        confidence=CONFIDENCE,
        method=method,
        random_state=0,
    )
    answers, counts = fast.predict_counted(rows[new])
    return _shown(
        name,
        words,
        model,
        fast,
        rows[new],
        answers,
        asked=float(counts.mean()),
        in_all=float(fast.forest_.n_trees),
        unit="trees",
        promised=MAX_DISAGREEMENT,
        predict=fast.predict,
        predict_one=fast.predictor(),
        report=fast.report(rows[new], labels[new]),
    )


def _shown(
    name: str,
    words: str,
    model: Any,
    classifier: Any,
    new: NDArray[np.float32],
    answers: NDArray[Any],
    *,
    predict: Callable[[Any], Any],
    predict_one: Callable[[Any], Any],
    **facts: Any,
) -> Shown:
    """Compare answers and time with the model itself, one thread each."""
    import spinney

    forest = spinney.read_model(model)
    with _one_thread(model):
        own = model.predict(new)
        full = forest.predict(new)
        alone = new[:N_SINGLE_ROWS]
        scikit_learn, all_trees, less = _microseconds(
            *(
                Timer(call, [new], n_calls=1)
                for call in (model.predict, forest.predict, predict)
            )
        )
        single_own, single = _microseconds(
            Timer(model.predict, list(alone[:, None]), n_calls=len(alone)),
            Timer(predict_one, list(alone), n_calls=len(alone)),
        )
    return Shown(
        name=name,
        model=words,
        disagreement=float(np.mean(answers != own)),
        n_different=int(np.count_nonzero(full != own)),
        n_new=len(new),
        scikit_learn=scikit_learn / len(new),
        all_trees=all_trees / len(new),
        spinney=less / len(new),
        single_scikit_learn=single_own,
        single_spinney=single,
        **facts,
    )


def _made_rows() -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return rows and labels of two classes that are hard to tell in places."""
    from sklearn.datasets import make_classification

    rows, labels = make_classification(
        N_TRAINED + N_GIVEN + N_NEW,
        20,
        n_informative=8,
        n_clusters_per_class=3,
        flip_y=0.02,
        random_state=0,
    )
    return rows.astype(np.float32), labels


def _shuffled(n_rows: int) -> NDArray[np.intp]:
    return np.random.default_rng(0).permutation(n_rows)


@contextmanager
def _one_thread(model: Any) -> Iterator[None]:
    """Let the model itself use one thread, as spinney does unless told otherwise."""
    from threadpoolctl import threadpool_limits

    if hasattr(model, "n_jobs"):
        model.set_params(n_jobs=None)
    with threadpool_limits(1):
        yield


def _microseconds(*timers: Timer) -> list[float]:
    """Return the microseconds that a call takes: the quickest of a few, in turn.

    The quickest and not the median: on a busy machine a call of milliseconds is often
    interrupted and a call of microseconds hardly ever, which would flatter spinney.
    """
    run_in_turn(timers, 0.0, min_samples=N_REPEATS)
    return [1e6 * one.shortest for one in timers]
