"""What ``spinney demo`` shows: four ways to evaluate less, each on a small model."""

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
    """What came out of one way to evaluate less.

    Parameters
    ----------
    name : str
        What it is called.
    model : str
        What was trained, on which data.
    used, in_all : float
        Trees, steps or features used for a row on average, and how many there are.
    unit : {"trees", "steps", "features"}
        What these are.
    promised : float or None
        Bound on the disagreement; None where there is none.
    disagreement : float
        Share of new rows predicted differently than by the full model.
    n_different : int
        New rows that spinney, with all trees, predicts differently than the model.
    n_new : int
        Number of new rows.
    scikit_learn, all_trees, spinney : float
        Microseconds per row in a batch: the model itself, all trees, less than all.
    single_scikit_learn, single_spinney : float
        Microseconds for a single row.
    report : Report
        More about it.
    """

    name: str
    model: str
    used: float
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
    """Return what shows each way to evaluate less, by what it is doing."""
    made = _synthetic_rows()
    shows: dict[str, Callable[[], Shown]] = {
        "Early exit by votes, on a random forest": lambda: votes(*made),
        "A cascade, on gradient boosting": lambda: cascade(*made),
        "An anytime forest, stopped after a quarter of its steps": anytime,
    }
    if find_spec("ortools") is not None:
        shows["A forest pruned to a budget of features"] = pruning
    return shows


@contextmanager
def compiled_aside() -> Iterator[None]:
    """Let another process compile what the last rooms need, while the first are shown.

    With two cores, that is a third of the wait on a new machine. The first rooms take
    longer than it does, so that it does not disturb what is timed later.
    """
    from spinney.acceleration.warming import start_compiling

    uses = ["anytime, several classes"]
    if find_spec("ortools") is not None:
        uses.append("pruning, two classes")
    process = start_compiling(uses)
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def votes(rows: NDArray[np.float32], labels: NDArray[np.intp]) -> Shown:
    """Stop the votes of a random forest early.

    Parameters
    ----------
    rows, labels : ndarray
        What to train on, to calibrate on and to predict.
    """
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(N_TREES, max_depth=10, random_state=0, n_jobs=-1)
    words = f"random forest of {N_TREES} trees, synthetic data"
    return _accelerated("votes stopped early", words, model, rows, labels, "sequential")


def cascade(rows: NDArray[np.float32], labels: NDArray[np.intp]) -> Shown:
    """Stop the sum of boosted trees early.

    Parameters
    ----------
    rows, labels : ndarray
        What to train on, to calibrate on and to predict.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=N_TREES, learning_rate=0.05, early_stopping=False, random_state=0
    )
    words = f"gradient boosting with {N_TREES} trees, synthetic data"
    return _accelerated("cascade", words, model, rows, labels, "cascade")


def anytime() -> Shown:
    """Stop a forest after a quarter of its steps."""
    from sklearn.datasets import load_digits
    from sklearn.frozen import FrozenEstimator

    import spinney

    model, (rows, labels), (new, new_labels) = _small_forest(load_digits, 25, 8)
    stepping: spinney.AnytimeForestClassifier = spinney.AnytimeForestClassifier(
        FrozenEstimator(model), random_state=0, verbose=False
    ).fit(rows, labels)
    n_steps = len(stepping.order_)
    n_taken = n_steps // 4

    def predict(some: Any) -> Any:
        return stepping.predict(some, max_steps=n_taken)

    return _shown(
        "anytime forest",
        "random forest of 25 trees, handwritten digits",
        model,
        new,
        used=float(n_taken),
        in_all=float(n_steps),
        unit="steps",
        promised=None,
        predict=predict,
        predict_one=lambda row: predict(row.reshape(1, -1)),
        report=stepping.report(new, new_labels, verbose=False),
    )


def pruning() -> Shown:
    """Prune a forest so that a row needs fewer features."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.frozen import FrozenEstimator

    import spinney

    model, (rows, labels), (new, new_labels) = _small_forest(load_breast_cancer, 30, 6)
    pruner: spinney.FeatureCostPruner = spinney.FeatureCostPruner(
        FrozenEstimator(model), budget=12.0, verbose=False
    ).fit(rows, labels)
    return _shown(
        "pruned forest",
        "random forest of 30 trees, breast cancer",
        model,
        new,
        used=float(np.mean(pruner.feature_cost(new))),
        in_all=float(new.shape[1]),
        unit="features",
        promised=None,
        predict=pruner.predict,
        predict_one=pruner.forest_.predictor(),
        report=pruner.report(new, new_labels, verbose=False),
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
    """Train a model on some rows, accelerate it with others, and predict the rest."""
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
        verbose=False,
    )
    _, counts = fast.predict_counted(rows[new])
    return _shown(
        name,
        words,
        model,
        rows[new],
        used=float(counts.mean()),
        in_all=float(fast.forest_.n_trees),
        unit="trees",
        promised=MAX_DISAGREEMENT,
        predict=fast.predict,
        predict_one=fast.predictor(),
        report=fast.report(rows[new], labels[new], verbose=False),
    )


def _shown(
    name: str,
    words: str,
    model: Any,
    new: NDArray[np.float32],
    *,
    predict: Callable[[Any], Any],
    predict_one: Callable[[Any], Any],
    **facts: Any,
) -> Shown:
    """Compare predictions and time with the model itself, one thread each."""
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
        disagreement=float(np.mean(predict(new) != own)),
        n_different=int(np.count_nonzero(full != own)),
        n_new=len(new),
        scikit_learn=scikit_learn / len(new),
        all_trees=all_trees / len(new),
        spinney=less / len(new),
        single_scikit_learn=single_own,
        single_spinney=single,
        **facts,
    )


def _synthetic_rows() -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return rows and labels of two classes that are partly hard to tell apart."""
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


def _small_forest(
    load: Callable[..., Any], n_trees: int, max_depth: int
) -> tuple[Any, tuple[Any, Any], tuple[Any, Any]]:
    """Return a forest trained on a third of some data, and the other two thirds."""
    from sklearn.ensemble import RandomForestClassifier

    rows, labels = load(return_X_y=True)
    rows = rows.astype(np.float32)
    shuffled = np.random.default_rng(0).permutation(len(rows))
    trained, fitted, new = np.array_split(shuffled, 3)
    model = RandomForestClassifier(n_trees, max_depth=max_depth, random_state=0)
    model.fit(rows[trained], labels[trained])
    return model, (rows[fitted], labels[fitted]), (rows[new], labels[new])


@contextmanager
def _one_thread(model: Any) -> Iterator[None]:
    """Let the model itself use one thread, as spinney does unless told otherwise."""
    from threadpoolctl import threadpool_limits

    if hasattr(model, "n_jobs"):
        model.set_params(n_jobs=None)
    with threadpool_limits(1):
        yield


def _microseconds(*timers: Timer) -> list[float]:
    """Return the microseconds that a call takes: the fastest of a few, in turn.

    The fastest and not the median: on a busy machine a call of milliseconds is often
    interrupted and a call of microseconds hardly ever, which would flatter spinney.
    """
    run_in_turn(timers, 0.0, min_samples=N_REPEATS)
    return [1e6 * one.shortest for one in timers]
