"""Engines that are not installed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import spinney


@pytest.mark.parametrize(
    ("name", "library"), [("dask", "dask"), ("spark", "pyspark"), ("ray", "ray")]
)
def test_the_extra_is_named(name, library, fast, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)  # importing it fails
    module = getattr(spinney.integrations, name)
    with pytest.raises(ImportError, match=rf'"spinney\[{name}\]"'):
        module.predict(fast, np.ones((2, 6)))


def test_the_extra_of_mlflow_is_named(fast, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r'"spinney\[mlflow\]"'):
        spinney.integrations.mlflow.save_model(fast, str(tmp_path / "model"))


def test_no_engine_is_imported_before_it_is_used():
    code = """
import sys, sklearn
before = set(sys.modules)
import spinney.integrations
for name in spinney.integrations.MODULES:
    getattr(spinney.integrations, name)
new = set(sys.modules) - before
print(*[name for name in ("dask", "distributed", "pyspark", "ray", "mlflow")
        if name in new])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_what_is_no_integration_is_an_attribute_error():
    with pytest.raises(AttributeError, match="flink"):
        _ = spinney.integrations.flink
