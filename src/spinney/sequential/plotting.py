"""Pictures of a stopping strategy."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from spinney.base.axes import axes_or_new
from spinney.errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spinney.sequential.strategy import StoppingStrategy

MAX_VOTERS_FOR_STATES = 20


def plot_thresholds(strategy: StoppingStrategy, ax: Axes | None) -> Axes:
    """Draw both thresholds over the steps, and the states that draw lots.

    Parameters
    ----------
    strategy : StoppingStrategy
        What to draw.
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.
    """
    ax = axes_or_new(ax)
    steps = np.arange(strategy.n_voters + 1)
    ax.fill_between(
        steps, strategy.upper, steps + 1, step="mid", alpha=0.2, color="tab:blue"
    )
    ax.fill_between(
        steps, -1, strategy.lower, step="mid", alpha=0.2, color="tab:orange"
    )
    ax.step(
        steps, strategy.upper, where="mid", color="tab:blue", label="positive from here"
    )
    ax.step(
        steps,
        strategy.lower,
        where="mid",
        color="tab:orange",
        label="negative up to here",
    )
    ax.plot(steps, steps / 2, color="0.6", linewidth=0.8, linestyle=":", label="tie")
    if strategy.fractional:
        step, count, stop = zip(*strategy.fractional, strict=True)
        ax.scatter(
            step, count, s=12 + 40 * np.array(stop), color="tab:red", label="draw lots"
        )
    ax.set_xlabel("votes cast")
    ax.set_ylabel("positive votes")
    ax.set_title(
        f"{strategy.objective}, {strategy.n_voters} voters, disagreement at most "
        f"{strategy.max_disagreement:g}"
    )
    ax.legend()
    return ax


def plot_states(strategy: StoppingStrategy, n_positive: int, ax: Axes | None) -> Axes:
    """Draw all states as a graph, shaded by how likely they are reached.

    States in which the vote may stop have a red border.

    Parameters
    ----------
    strategy : StoppingStrategy
        What to draw, for at most 20 voters.
    n_positive : int
        Number of positive voters.
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.
    """
    n_voters = strategy.n_voters
    if n_voters > MAX_VOTERS_FOR_STATES:
        msg = (
            f"The graph of all states is drawn for up to {MAX_VOTERS_FOR_STATES} "
            f"voters, got {n_voters}. Leave n_positive out to draw the thresholds."
        )
        raise InvalidArgumentError(msg)
    if n_positive not in range(n_voters + 1):
        msg = (
            f"n_positive must be an integer from 0 to {n_voters}, got {n_positive!r}. "
            "It is the number of positive voters among all."
        )
        raise InvalidArgumentError(msg)
    ax = axes_or_new(ax)
    reached = _reach_probabilities(strategy, n_positive)
    for (i, j), probability in reached.items():
        stop = strategy.stop_probability(i, j)
        for more in (0, 1):
            moved = (
                probability
                * (1.0 - stop)
                * _next_vote(n_voters, n_positive, i, j)[more]
            )
            if moved > 0.0:
                arrow: dict[str, Any] = {"arrowstyle": "->", "color": _grey(moved)}
                arrow |= {"shrinkA": 11, "shrinkB": 11}
                ax.annotate("", (i + 1, j + more), (i, j), arrowprops=arrow)
        dark = probability > 0.5
        ax.text(
            i,
            j,
            str(j),
            ha="center",
            va="center",
            color="white" if dark else "black",
            bbox={
                "boxstyle": "circle",
                "facecolor": _grey(probability),
                "edgecolor": "red" if stop > 0.0 else "0.6",
                "linestyle": "-" if stop in (0.0, 1.0) else "--",
            },
        )
    ax.set_xlim(-0.5, n_voters + 0.5)
    ax.set_ylim(-0.5, n_voters + 0.5)
    ax.set_xlabel("votes cast")
    ax.set_ylabel("positive votes")
    ax.set_title(f"{n_positive} of {n_voters} voters positive")
    return ax


def _grey(probability: float) -> str:
    """Return the shade for a probability: white for 0, nearly black for 1."""
    return f"{1.0 - 0.9 * min(probability, 1.0):.3f}"


def _next_vote(
    n_voters: int, n_positive: int, step: int, count: int
) -> tuple[float, float]:
    """Return the probabilities of a negative and of a positive next vote."""
    if step == n_voters:
        return 0.0, 0.0
    positive = (n_positive - count) / (n_voters - step)
    return 1.0 - positive, positive


def _reach_probabilities(
    strategy: StoppingStrategy, n_positive: int
) -> dict[tuple[int, int], float]:
    """Return the probability of every state that voters may come to."""
    n_voters = strategy.n_voters
    reached = {
        (i, j): 0.0
        for i in range(n_voters + 1)
        for j in range(i + 1)
        if comb(n_positive, j) * comb(n_voters - n_positive, i - j)
    }
    reached[0, 0] = 1.0
    for i in range(n_voters):
        for j in range(i + 1):
            if (i, j) not in reached:
                continue
            going_on = reached[i, j] * (1.0 - strategy.stop_probability(i, j))
            for more, likely in enumerate(_next_vote(n_voters, n_positive, i, j)):
                if likely > 0.0:
                    reached[i + 1, j + more] += going_on * likely
    return reached
