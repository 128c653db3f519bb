"""
Monitor the bound in production
===============================

A forest is accelerated on last month's rows. The rows of this month are like them at
first. Then the sensors wear out and add more and more noise, and early exit disagrees
with the model on more rows. The monitor checks one row in five against all trees, and
raises an alarm once there is enough evidence that the bound is exceeded. ``--plot
FILE`` writes the figure to a file.
"""

from __future__ import annotations

import argparse
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import spinney

N_DAYS, ROWS_PER_DAY, DRIFT_FROM = 60, 1000, 30


def main() -> None:
    """Serve sixty days, half of them with drift."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", help="write the picture to this file")
    options = parser.parse_args()
    n_served = N_DAYS * ROWS_PER_DAY
    X, y = make_classification(
        12_000 + n_served, 12, n_informative=6, class_sep=1.5, random_state=0
    )
    model = RandomForestClassifier(100, max_depth=8, random_state=0)
    model.fit(X[:4000], y[:4000])
    fast = spinney.accelerate(
        model, X[4000:12_000], max_disagreement=0.005, random_state=0
    )
    print(fast.promise_)

    monitor = spinney.Monitor(fast, share=0.2, random_state=0)
    rng = np.random.default_rng(0)
    days: list[dict[str, Any]] = []
    for day, rows in enumerate(np.split(X[12_000:], N_DAYS)):
        noise = 2.0 * max(0, day - DRIFT_FROM) / (N_DAYS - DRIFT_FROM)
        monitor.predict(rows + noise * rng.normal(size=rows.shape))
        days.append(monitor.status())
        if days[-1]["alarm"] and not (day and days[-2]["alarm"]):
            seen = days[-1]
            print(
                f"Alarm on day {day}: {seen['n_disagreements']} of "
                f"{seen['n_checked']:,} checked rows disagreed, more than "
                f"{seen['max_disagreement']:.1%}."
            )
    print(monitor)
    figure = draw(days)
    if options.plot:
        figure.savefig(options.plot, dpi=120)
    else:
        plt.show()


def draw(days: list[dict[str, Any]]) -> Figure:
    """Draw the disagreement with its interval, the bound and the alarm."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array([day[name] for day in days], dtype=np.float64)

    figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
    number = np.arange(len(days))
    ax.fill_between(
        number,
        100 * column("lower"),
        100 * column("upper"),
        alpha=0.25,
        label="95 % confidence sequence",
    )
    ax.plot(number, 100 * column("disagreement"), label="checked rows that disagree")
    ax.axhline(100 * days[0]["max_disagreement"], color="black", ls="--", label="bound")
    ax.axvline(DRIFT_FROM, color="grey", lw=1, ls=":")
    ax.text(DRIFT_FROM + 0.4, 2.35, "drift begins", color="grey")
    alarms = np.flatnonzero([day["alarm"] for day in days])
    if len(alarms):
        ax.axvline(alarms[0], color="firebrick", lw=1.5)
        ax.text(alarms[0] + 0.4, 2.1, "alarm", color="firebrick")
    ax.set(xlabel="day", ylabel="disagreement so far, %", ylim=(0, 2.6))
    ax.legend(loc="upper center", frameon=False, bbox_to_anchor=(0.32, 1.0))
    return figure


if __name__ == "__main__":
    main()
