"""A folder of models and tables, good and bad, and the command as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spinney
from spinney.cli import main

# What colours or reshapes messages, and what keeps them plain.
FORCED = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
PLAIN = {"TERM": "dumb", "COLUMNS": "88"}

COLUMNS = ("age", "body mass", "iron", "zinc", "sleep", "steps")
N_TRAINED, N_ROWS = 400, 1500


@pytest.fixture(scope="session", autouse=True)
def all_measurements_are_short(short_measurements):
    """Let all reports made here measure times briefly."""


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """Return a folder with everything that the commands can be given."""
    folder = tmp_path_factory.mktemp("work")
    X, y = make_classification(
        N_TRAINED + N_ROWS, 6, n_informative=4, flip_y=0.02, random_state=0
    )
    frame = pd.DataFrame(X.astype(np.float32), columns=COLUMNS)
    trained, rest = frame[:N_TRAINED], frame[N_TRAINED:].reset_index(drop=True)
    model = RandomForestClassifier(25, max_depth=6, random_state=0)
    model.fit(trained, y[:N_TRAINED])
    joblib.dump(model, folder / "model.joblib")
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    joblib.dump(pipeline.fit(trained, y[:N_TRAINED]), folder / "pipeline.joblib")
    boosted = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=8, verbose=-1)
    boosted.fit(trained, y[:N_TRAINED])
    boosted.booster_.save_model(folder / "model.txt")
    spinney.save(spinney.read_model(model), folder / "forest.spinney")
    fast = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.02, random_state=0
    ).fit(rest)
    spinney.save(fast, folder / "fast.spinney")

    table = rest.assign(ill=y[N_TRAINED:])
    table.to_csv(folder / "rows.csv", index=False)
    table.to_parquet(folder / "rows.parquet", index=False)
    table.to_feather(folder / "rows.feather")
    table[table.columns[::-1]].to_csv(folder / "shuffled.csv", index=False)
    np.savez(folder / "rows.npz", X=rest.to_numpy(), y=y[N_TRAINED:])
    few = table[:20]
    few.drop(columns="iron").to_csv(folder / "narrow.csv", index=False)
    few.assign(iron="much").to_csv(folder / "text.csv", index=False)
    few.assign(ill=[np.nan, *few["ill"][1:]]).to_csv(folder / "nan.csv", index=False)
    few[:0].to_csv(folder / "head.csv", index=False)
    (folder / "empty.csv").touch()
    content = (folder / "fast.spinney").read_bytes()
    (folder / "corrupt.spinney").write_bytes(content[:-100])
    text = (folder / "model.txt").read_text()
    (folder / "corrupt.txt").write_text(text[: len(text) // 2])
    return folder


@pytest.fixture(scope="session")
def call():
    """Return what runs a command as in a plain terminal."""
    environment = {k: v for k, v in os.environ.items() if k not in FORCED}
    environment |= PLAIN

    def call(*command, cwd=None):
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=cwd,
        )

    return call


@pytest.fixture
def call_here(monkeypatch, capfd):
    """Return what runs the command likewise, but in this process: at once."""
    for name in FORCED:
        monkeypatch.delenv(name, raising=False)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)

    def call_here(*arguments):
        words = [str(word) for word in arguments]
        monkeypatch.setattr(sys, "argv", ["spinney", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed, complaint = capfd.readouterr()
        code = ended.value.code or 0
        return subprocess.CompletedProcess(words, code, printed, complaint)

    return call_here


@pytest.fixture(scope="session")
def installed():
    """Return the path of the installed command."""
    path = Path(sys.executable).with_name("spinney")
    assert path.exists(), "spinney is not installed in this environment: make test"
    return path
