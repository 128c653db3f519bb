"""Compiled kernels on disk: never stale, never wrong, and never in the way."""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.machinery
import os
import platform
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

from spinney.errors import SpinneyWarning
from spinney.runtime import (
    choice,
    compile_lock,
    compile_notice,
    kernel_folders,
    lowering,
)
from spinney.runtime import kernel_sources as sources_module
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.kernel_folders import (
    KEPT_VERSIONS,
    folder_to_write,
    folders_to_read,
)
from spinney.runtime.kernel_sources import PACKAGE, kernel_sources

compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled"
)
# What was asked before is remembered; here every question is a new one.
digest_now = sources_module.source_digest.__wrapped__


def forget_folders():
    """Look for folders anew, as a new process does."""
    folders_to_read.cache_clear()
    folder_to_write.cache_clear()


def folder_now():
    forget_folders()
    return folder_to_write()


@pytest.fixture(autouse=True)
def folders_of_the_next_test():
    yield
    forget_folders()


# ---------------------------------------------------------------------- the key


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return the folder of a small package that takes the place of spinney."""
    files = {
        "__init__.py": "",
        "kernels.py": """
            from spinney.runtime.kernel_cache import kernel
            from spinney.sizes import (
                HEIGHT,
                WIDTH,
            )
            from spinney.tables import signs

            @kernel
            def area(x):
                return HEIGHT * WIDTH * signs.PLUS * x
            """,
        "sizes.py": "from spinney.units import METRE\nHEIGHT = WIDTH = 2 * METRE\n",
        "units.py": "METRE = 100\n",
        "tables/__init__.py": "",
        "tables/signs.py": "PLUS = 1\n",
        "pages.py": "import spinney.kernels\nTITLE = 'no kernel reads this'\n",
    }
    for name, text in files.items():
        path = tmp_path / "spinney" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(re.sub("^ {12}", "", text, flags=re.MULTILINE))
    monkeypatch.setattr(sources_module, "PACKAGE", tmp_path / "spinney")
    # The digest of this small package, not the one remembered of the real one.
    monkeypatch.setattr(kernel_folders, "source_digest", digest_now)
    return tmp_path / "spinney"


KERNELS_AND_WHAT_THEY_IMPORT = [
    "kernels.py",
    "sizes.py",
    "tables/__init__.py",
    "tables/signs.py",
    "units.py",
]


def test_sources_are_those_of_kernels_and_of_all_that_they_import(package):
    assert sorted(kernel_sources()) == KERNELS_AND_WHAT_THEY_IMPORT


def test_only_what_kernels_import_is_in_the_key():
    """Else every change anywhere would compile everything again."""
    sources = kernel_sources()
    assert "runtime/simd.py" in sources
    for name in ("runtime/__init__.py", "runtime/engine.py", "forest/forest.py"):
        assert name not in sources


@pytest.mark.parametrize("name", KERNELS_AND_WHAT_THEY_IMPORT)
def test_a_change_of_any_source_changes_the_key(package, name):
    before = digest_now()
    (package / name).write_bytes((package / name).read_bytes() + b"# changed\n")
    assert digest_now() != before


def test_a_source_that_comes_goes_or_moves_changes_the_key(package):
    digests = [digest_now()]
    (package / "more.py").write_bytes((package / "kernels.py").read_bytes())
    digests.append(digest_now())
    (package / "more.py").rename(package / "moved.py")
    digests.append(digest_now())
    (package / "kernels.py").unlink()
    digests.append(digest_now())
    assert len(set(digests)) == 4


def test_other_changes_leave_the_key_as_it_was(package):
    before = digest_now()
    (package / "pages.py").write_text("TITLE = 'changed'\n")
    os.utime(package / "kernels.py", (1, 1))
    assert digest_now() == before


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (sources_module, "__version__"),
        (numba, "__version__"),
        (llvmlite, "__version__"),
        (np, "__version__"),
        (importlib.machinery, "EXTENSION_SUFFIXES"),
    ],
    ids=["spinney", "numba", "llvmlite", "numpy", "kind of python"],
)
def test_another_version_of_anything_changes_the_key(owner, name, monkeypatch):
    before = digest_now()
    assert digest_now() == before
    monkeypatch.setattr(owner, name, "another")
    assert digest_now() != before


def test_another_version_of_python_changes_the_key_and_another_build_does_not(
    monkeypatch,
):
    before = digest_now()
    monkeypatch.setattr(sys, "version", sys.version.replace("GCC", "Clang"))
    assert digest_now() == before
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.99")
    assert digest_now() != before


def test_every_module_with_kernels_is_part_of_the_key():
    with_kernels = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^@(kernel|(numba\.)?n?jit)\b", path.read_text(), re.MULTILINE)
    }
    assert with_kernels
    assert with_kernels <= set(kernel_sources())


def test_whatever_such_a_module_imports_is_part_of_the_key():
    sources = kernel_sources()
    for name, source in sources.items():
        for node in ast.parse(source).body:
            modules = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} has a relative import"
                modules = [node.module]
                modules += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                path = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
                if module.startswith("spinney.") and path.exists():
                    assert path.relative_to(PACKAGE).as_posix() in sources


# -------------------------------------------------------------------- the files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder for compiled code that only this test uses."""
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path / "compiled"))
    return folder_now()


def fresh_kernel():
    """Return a kernel as a new process has it: nothing is compiled or loaded yet."""

    @kernel
    def mix(a, b):
        return 3 * a - b

    return mix


def found_on_disk(mix):
    """Return how many signatures were found on disk rather than compiled."""
    return sum(mix.stats.cache_hits.values())


def entries(folder):
    """Return the files of the kernel."""
    return sorted(folder.iterdir())


@compiled_only
def test_what_was_compiled_once_is_found_by_the_next_process(folder):
    assert fresh_kernel()(5, 1) == 14
    mix = fresh_kernel()
    assert mix(5, 1) == 14
    assert found_on_disk(mix) == 1
    assert mix(0.5, 1.0) == 0.5
    assert found_on_disk(mix) == 1
    assert len(entries(folder)) == 2
    mix = fresh_kernel()
    mix(5, 1), mix(0.5, 1.0)
    assert found_on_disk(mix) == 2


@compiled_only
def test_nothing_is_read_or_written_before_the_first_call(folder):
    mix = fresh_kernel()
    assert entries(folder) == []
    assert mix.stats.cache_path == str(folder)


@compiled_only
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content + b"more",
        lambda content: bytes(len(content)),
        lambda content: content[:10] + bytes([content[10] ^ 1]) + content[11:],
        lambda content: content[:-999] + bytes([content[-999] ^ 4]) + content[-998:],
    ],
    ids=["empty", "head", "half", "cut", "longer", "zeros", "first bit", "later bit"],
)
def test_a_damaged_file_is_compiled_and_written_again(folder, damage):
    fresh_kernel()(5, 1)
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    mix = fresh_kernel()
    assert mix(5, 1) == 14
    assert found_on_disk(mix) == 0
    mix = fresh_kernel()
    assert mix(5, 1) == 14
    assert found_on_disk(mix) == 1


@compiled_only
def test_machine_code_of_another_signature_is_not_taken(folder):
    # Both kinds of numbers have eight bytes: such a mistake would not be noticed.
    fresh_kernel()(5, 1)
    (of_integers,) = entries(folder)
    fresh_kernel()(0.5, 1.0)
    (of_floats,) = set(entries(folder)) - {of_integers}
    of_floats.write_bytes(of_integers.read_bytes())
    mix = fresh_kernel()
    assert mix(0.5, 1.0) == 0.5
    assert found_on_disk(mix) == 0


@compiled_only
def test_a_folder_in_place_of_a_file_costs_nothing_but_time(folder):
    fresh_kernel()(5, 1)
    (path,) = entries(folder)
    path.unlink()
    path.mkdir()
    assert fresh_kernel()(5, 1) == 14
    assert entries(folder) == [path]


@compiled_only
def test_where_nothing_can_be_kept_kernels_still_answer(tmp_path, folder):
    # A file in place of the folder, for permissions do not bind root.
    folder.rmdir()
    folder.touch()
    assert fresh_kernel()(5, 1) == 14
    folder.unlink()
    folder.parent.rmdir()
    folder.parent.touch()
    forget_folders()
    assert fresh_kernel()(5, 1) == 14
    assert folder.parent.read_bytes() == b""


@pytest.fixture
def nothing_said(monkeypatch):
    """Let notices be given as if this were a new process."""
    monkeypatch.setattr(compile_notice, "_notice", compile_notice._Notice())


@compiled_only
def test_what_cannot_be_written_is_read_all_the_same(folder, monkeypatch, nothing_said):
    fresh_kernel()(5, 1)
    kept = entries(folder)
    # As on a read-only file system; permissions do not bind root.
    monkeypatch.setattr(kernel_folders, "can_write", lambda folder: False)
    forget_folders()
    mix = fresh_kernel()
    assert mix(5, 1) == 14
    assert found_on_disk(mix) == 1
    with pytest.warns(SpinneyWarning, match=r"compiles them again.*SPINNEY_CACHE_DIR"):
        assert mix(0.5, 1.0) == 0.5
    with warnings.catch_warnings():  # said once
        warnings.simplefilter("error")
        assert mix(np.uint8(3), np.uint8(1)) == 8
    assert entries(folder) == kept


@compiled_only
def test_those_who_make_errors_of_warnings_are_answered(
    folder, monkeypatch, nothing_said
):
    monkeypatch.setattr(kernel_folders, "can_write", lambda folder: False)
    forget_folders()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fresh_kernel()(5, 1) == 14


@compiled_only
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_costs_nothing_but_time(folder, monkeypatch, error, nothing_said):
    def fail(path, content):
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])  # as much as there is room for
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.warns(SpinneyWarning, match=os.strerror(error)):
            assert fresh_kernel()(5, 1) == 14
        assert compile_notice.anything_is_lost()
    assert entries(folder) == []
    fresh_kernel()(5, 1)
    assert len(entries(folder)) == 1


@compiled_only
def test_on_a_file_system_that_is_really_full(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "small").mkdir()
    script = (
        f"mount -t tmpfs -o size=16k none {tmp_path}/small && "
        f"SPINNEY_CACHE_DIR={tmp_path}/small {sys.executable} -c "
        "'import tiny; tiny.use(); print(\"answered\")'"
    )
    done = in_a_mount_namespace(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "answered\n"
    assert "No space left on device" in done.stderr


def in_a_mount_namespace(script, folder):
    """Run a shell script that may mount things which nobody else sees."""
    unshare = [
        "unshare",
        "--mount",
        *([] if os.geteuid() == 0 else ["--map-root-user"]),
    ]
    try:
        subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", folder], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this user may not mount anything: {error}")
    return subprocess.run(
        [*unshare, "sh", "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


@compiled_only
def test_a_process_killed_while_it_writes_leaves_nothing_that_is_read(tmp_path, folder):
    (tmp_path / "tiny.py").write_text(TINY)
    killed = """
import os, pathlib, signal, tiny
def die(path, content):
    with path.open("wb") as file:
        file.write(content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.write_bytes = die
tiny.use()
"""
    done = subprocess.run(
        [sys.executable, "-c", killed],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        check=False,
    )
    assert done.returncode == -9
    (partial,) = folder.glob("*.partial")
    mix = fresh_kernel()
    assert mix(5, 1) == 14
    assert found_on_disk(mix) == 0
    # What is left behind goes when it is old enough that nobody still writes it.
    folder_now()
    assert partial in entries(folder)
    for left in (partial, *folder.glob(f"*{compile_lock.SUFFIX}")):
        os.utime(left, (1, 1))
    folder_now()
    assert partial not in entries(folder)
    assert len(entries(folder)) == 1


@compiled_only
def test_a_folder_that_was_removed_meanwhile_is_made_again(folder):
    folder.rmdir()
    assert fresh_kernel()(5, 1) == 14
    assert len(entries(folder)) == 1


@pytest.fixture
def without_sources(folder, monkeypatch, nothing_said):
    """Install spinney as bytecode alone, or in an archive, as far as it can tell."""

    def fail():
        raise FileNotFoundError

    forget_folders()
    monkeypatch.setattr(kernel_folders, "source_digest", fail)


@compiled_only
def test_sources_that_cannot_be_read_cost_nothing_but_time(folder, without_sources):
    with pytest.warns(SpinneyWarning, match=r"source files.*\.py files"):
        assert fresh_kernel()(5, 1) == 14
    assert fresh_kernel()._cache.cache_path == ""
    assert entries(folder) == []


@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_without_sources_either_engine_serves(without_sources, engine, monkeypatch):
    monkeypatch.setattr(choice.config, "_engine", engine)
    monkeypatch.setattr(choice, "_ready", set())
    monkeypatch.setattr(choice, "_spent", {})
    some = choice.Kernels("some kernels", "float32")
    for seconds in (0.0, choice.LOAD_SECONDS, choice.COMPILE_SECONDS):
        assert choice.either(some, seconds, lambda: 14, lambda: 14) == 14


@compiled_only
def test_recompiling_forgets_what_was_kept(folder):
    mix = fresh_kernel()
    mix(5, 1)
    (path,) = entries(folder)
    other = path.with_name("other-0123456789abcdef.nbc")
    other.touch()
    mix._cache.flush()
    assert entries(folder) == [other]


TINY = """
import numpy as np
from spinney.runtime.kernel_cache import kernel


@kernel
def mix(a, b):
    return 3 * a - b


def use():
    for kind in (np.int64, np.float64, np.uint64):
        assert mix(kind(5), kind(1)) == 14
"""
USE_AT = """
import sys, time
import tiny
time.sleep(max(0, float(sys.argv[1]) - time.time()))
tiny.use()
print(3 - sum(tiny.mix.stats.cache_hits.values()))
"""


@compiled_only
def test_processes_that_want_the_same_at_once_compile_it_once(
    tmp_path, folder, monkeypatch
):
    (tmp_path / "tiny.py").write_text(TINY)
    at_the_same_moment = time.time() + 3
    children = [
        subprocess.Popen(
            [sys.executable, "-c", USE_AT, str(at_the_same_moment)],
            cwd=tmp_path,  # where it finds tiny
            env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    n_compiled = 0
    for child in children:
        said, complaint = child.communicate(timeout=120)
        assert child.returncode == 0, complaint
        n_compiled += int(said)
    assert n_compiled == 3 or compile_lock.fcntl is None
    assert len(entries(folder)) == 3
    monkeypatch.syspath_prepend(tmp_path)
    tiny = importlib.import_module("tiny")
    tiny.use()
    assert found_on_disk(tiny.mix) == 3


@pytest.fixture
def lock(folder):
    """Return the file that is locked while the kernel is compiled."""
    pytest.importorskip("fcntl")
    fresh_kernel()(5, 1)
    (path,) = entries(folder)
    path.unlink()
    return path.with_name(path.name + compile_lock.SUFFIX)


@compiled_only
def test_a_process_that_takes_too_long_is_not_waited_for(folder, lock, monkeypatch):
    import fcntl

    monkeypatch.setattr(compile_lock, "WAIT_SECONDS", 0.2)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert fresh_kernel()(5, 1) == 14
    assert len(list(folder.glob("*.nbc"))) == 1


@compiled_only
def test_the_lock_of_a_process_that_was_killed_is_taken_over(folder, lock):
    hold = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); "
        "fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdout=subprocess.PIPE
    )
    assert child.stdout.readline()
    killer = threading.Timer(0.5, child.kill)
    killer.start()
    begin = time.monotonic()
    assert fresh_kernel()(5, 1) == 14
    assert 0.3 < time.monotonic() - begin < 30
    child.communicate()
    assert [path.suffix for path in entries(folder)] == [".nbc"]


@compiled_only
def test_what_cannot_be_compiled_leaves_no_lock(folder):
    @kernel
    def wrong(a):
        return a.there_is_no_such_thing

    with pytest.raises(numba.TypingError):
        wrong(1)
    assert entries(folder) == []
    assert fresh_kernel()(5, 1) == 14


@compiled_only
def test_a_compiler_that_fails_by_itself_leaves_no_lock(folder, monkeypatch):
    def fail(self, func):
        raise RuntimeError(func.__name__)

    failing = fresh_kernel()
    monkeypatch.setattr(lowering._Compiler, "compile_extra", fail)
    begin = time.monotonic()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mix"):
            failing(5, 1)
    assert time.monotonic() - begin < compile_lock.WAIT_SECONDS / 2
    assert entries(folder) == []
    monkeypatch.undo()


@compiled_only
def test_a_process_does_not_wait_for_itself(folder, lock):
    for _ in range(2):  # the first one is never released
        begin = time.monotonic()
        compile_lock.wait_for_turn(lock.with_suffix(""), lambda: False)
        assert time.monotonic() - begin < compile_lock.WAIT_SECONDS / 2
    compile_lock.release()
    assert entries(folder) == []


@compiled_only
@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "no locks"), None])
def test_where_files_cannot_be_locked_everybody_compiles(folder, monkeypatch, error):
    if error is None:
        monkeypatch.setattr(compile_lock, "fcntl", None)
    elif compile_lock.fcntl is not None:

        def fail(*_):
            raise error

        monkeypatch.setattr(compile_lock.fcntl, "flock", fail)
    assert fresh_kernel()(5, 1) == 14
    assert len(list(folder.glob("*.nbc"))) == 1


# ------------------------------------------------------------------- the folder


def test_the_folder_is_named_for_the_key_below_the_one_that_was_asked_for(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("SPINNEY_CACHE_DIR", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "of numba"))
    assert folder_now() == tmp_path / "of numba" / digest_now()
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path / "ours"))
    assert folder_now() == tmp_path / "ours" / digest_now()
    assert folder_now().is_dir()


def test_unasked_it_is_beside_the_package_or_else_in_the_cache_of_the_user(
    package, tmp_path, monkeypatch
):
    monkeypatch.delenv("SPINNEY_CACHE_DIR", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (package / "__pycache__").touch()  # no folder can be made below a file
    kept = folder_now()
    assert kept.parent == tmp_path / "cache" / "spinney" / "kernels"
    (package / "__pycache__").unlink()
    kept = folder_now()
    assert kept.parent == package / "__pycache__" / "kernels"
    # It is read even where nothing more can be written to it.
    monkeypatch.setattr(kernel_folders, "can_write", lambda folder: False)
    assert folder_now() is None
    assert folders_to_read()[0] == kept


def test_a_user_without_a_home_has_no_cache_in_the_working_folder(
    package, tmp_path, monkeypatch
):
    for name in ("SPINNEY_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    # What Python does for a user that no list of users knows.
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    (package / "__pycache__").touch()
    assert folder_now() is None
    assert len(folders_to_read()) == 1


def test_without_sources_nothing_is_kept_for_nothing_would_be_noticed(
    package, monkeypatch
):
    for path in package.rglob("*.py"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        digest_now()


def test_folders_of_older_versions_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path))
    old = [tmp_path / f"{number:032x}" for number in range(KEPT_VERSIONS + 3)]
    for age, path in enumerate(old):
        path.mkdir()
        (path / "kernel.nbc").touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    (tmp_path / "of somebody else").mkdir()
    link = tmp_path / f"{99:032x}"
    link.symlink_to("nowhere")
    kept = {folder_now(), *old[:KEPT_VERSIONS], tmp_path / "of somebody else", link}
    assert set(tmp_path.iterdir()) == kept
    assert list(Path(old[0]).iterdir()) == [old[0] / "kernel.nbc"]


def test_folders_of_others_stay_though_they_are_named_alike(tmp_path, monkeypatch):
    # As MLflow names its runs.
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path))
    others = [tmp_path / f"{number:032x}" for number in range(2 * KEPT_VERSIONS)]
    for path in others:
        path.mkdir()
        (path / "kernel.nbc").touch()
        (path / "meta.yaml").touch()
    empty = tmp_path / f"{99:032x}"
    empty.mkdir()
    folder = folder_now()
    assert set(tmp_path.iterdir()) == {folder, *others, empty}
