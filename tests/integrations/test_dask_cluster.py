"""Dask with two worker processes, one of which may be killed."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import spinney

pytestmark = [
    pytest.mark.engines,
    # Of Dask's own making, when processes are started and killed.
    pytest.mark.filterwarnings("ignore"),
]

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def count_loads():
    """Return how often this process has loaded a model, counted from now on."""
    from spinney.integrations import portable

    if not hasattr(portable, "_n_loads"):
        portable._n_loads = 0
        load = portable.PortableModel._load

        def counted(self):
            portable._n_loads += 1
            return load(self)

        portable.PortableModel._load = counted
    return portable._n_loads


@pytest.mark.parametrize("how", ["object", "path"])
def test_answers_are_those_of_one_machine(client, how, fast, rows, tmp_path):
    client.run(count_loads)
    many = np.concatenate([rows] * 10)
    model = fast
    if how == "path":
        model = tmp_path / "model.spinney"
        spinney.save(fast, model)
    X = da.from_array(many, chunks=(500, 6))
    labels, n_evaluated = dask.compute(
        *spinney.integrations.dask.predict_counted(model, X)
    )
    own = fast.predict_counted(many)
    assert (labels == own[0]).all()
    assert (n_evaluated == own[1]).all()
    # Eighty tasks, and at most one load in each of two processes.
    assert set(client.run(count_loads).values()) <= {0, 1}


def test_data_frames_on_two_processes(client, named, tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(5000, 3)), columns=["days", "age", "dose"])
    table = dd.from_pandas(frame, npartitions=8)
    labels = spinney.integrations.dask.predict(named, table).compute()
    assert (labels.to_numpy() == named.predict(frame[["age", "dose", "days"]])).all()


def test_a_worker_killed_on_the_way_changes_nothing(client, fast, rows):
    many = np.concatenate([rows] * 10)

    def slowly(block):
        time.sleep(0.1)
        return block

    X = da.from_array(many, chunks=(500, 6)).map_blocks(slowly, meta=many[:0])
    labels, n_evaluated = spinney.integrations.dask.predict_counted(fast, X)
    victim = next(iter(client.run(os.getpid).values()))
    futures = client.compute([labels, n_evaluated])
    time.sleep(1.5)
    assert all(future.status == "pending" for future in futures)
    os.kill(victim, signal.SIGKILL)
    own = fast.predict_counted(many)
    for computed, expected in zip(client.gather(futures), own, strict=True):
        assert (computed == expected).all()
    assert victim not in client.run(os.getpid).values()


def test_calibration_on_two_processes(client, trained, rows):
    many = np.concatenate([rows] * 3)
    X = da.from_array(many, chunks=(1000, 6))
    quick = spinney.accelerate(
        trained, X, max_disagreement=0.02, method="sequential", random_state=0
    )
    ours = spinney.certify(quick, X)
    assert ours == spinney.certify(quick, many)
    assert ours.n_rows == len(many)
