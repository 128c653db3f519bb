"""`warm_up`: what it compiles, where to, and for which processors."""

from __future__ import annotations

import os
import shutil

import numba
import pytest

import spinney
from spinney.acceleration import warming
from spinney.errors import InvalidArgumentError, SpinneyError
from spinney.runtime.kernel_folders import folders_to_read
from spinney.runtime.kernel_sources import source_digest
from spinney.runtime.processors import reached_levels

compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled"
)


def test_it_tells_what_it_did_and_how_long_it_took():
    shares: list[float] = []
    timings = spinney.warm_up(verbose=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == len(timings)
    assert shares[-1] == 1.0
    assert len({what for what, _ in timings}) == len(timings) > 20
    assert all(seconds >= 0 for _, seconds in timings)


@compiled_only
def test_into_a_folder_nothing_of_this_process_is_missing(tmp_path):
    # Kernels that these tests have compiled before are taken over, but for one.
    kept = tmp_path / source_digest()
    kept.mkdir()
    for folder in folders_to_read():
        if folder.is_dir():
            for path in folder.glob("*.nbc"):
                shutil.copy(path, kept)
    missing = sorted(kept.glob("*load_columns*"))
    for path in missing:
        path.unlink()
    shares: list[float] = []
    timings = spinney.warm_up(tmp_path, verbose=shares.append)
    assert len(shares) == len(timings)
    assert shares[-1] == 1.0
    assert [what for what, _ in timings] == [what for what, _ in spinney.warm_up()]
    # This process has loaded it long ago; the folder is filled all the same.
    assert list(kept.glob("*load_columns*"))


@pytest.fixture
def environments(monkeypatch):
    """Catch the environments of child processes instead of starting any."""
    caught = []
    monkeypatch.setattr(
        warming, "_run_in_child", lambda one, show: caught.append(one) or []
    )
    return caught


def test_a_fleet_is_compiled_for_by_name_without_features_of_this_machine(
    tmp_path, environments, monkeypatch
):
    if not reached_levels():
        pytest.skip("no levels are known for this kind of machine")
    level = reached_levels()[-1]
    spinney.warm_up(tmp_path / "new" / "kernels", cpu=level)
    (environment,) = environments
    assert environment["SPINNEY_CACHE_DIR"] == str(tmp_path / "new" / "kernels")
    assert environment["NUMBA_CPU_NAME"] == level
    assert environment["NUMBA_CPU_FEATURES"] == ""
    assert (tmp_path / "new" / "kernels").is_dir()
    assert "NUMBA_CPU_NAME" not in os.environ


def test_a_relative_folder_is_that_of_the_working_folder(
    tmp_path, environments, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    spinney.warm_up("kernels")
    assert environments[0]["SPINNEY_CACHE_DIR"] == str(tmp_path / "kernels")


def test_what_cannot_work_is_refused_before_anything_is_compiled(
    tmp_path, environments
):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match=r"into must be a folder.*file"):
        spinney.warm_up(tmp_path / "file")
    with pytest.raises(InvalidArgumentError, match="'pentium'"):
        spinney.warm_up(cpu="pentium")
    assert environments == []


def test_a_child_that_fails_is_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(warming, "_CHILD", "raise MemoryError('no more')")
    with pytest.raises(SpinneyError, match="MemoryError: no more"):
        warming._run_in_child(dict(os.environ), lambda share: None)


@compiled_only
def test_kernels_are_compiled_in_a_process_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(warming.os, "cpu_count", lambda: 2)
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path))
    process = warming.start_compiling(["strategies, minimean"])
    assert process.wait() == 0
    kept = {path.name.partition("-")[0] for path in tmp_path.glob("*/*.nbc")}
    assert any("sequential" in name for name in kept)
    # What engines need was not worth compiling.
    assert not any("batch_kernels" in name for name in kept)


def test_nothing_is_compiled_aside_where_that_gains_nothing(monkeypatch):
    monkeypatch.setattr(warming.os, "cpu_count", lambda: 1)
    assert warming.start_compiling(["strategies, minimean"]) is None
