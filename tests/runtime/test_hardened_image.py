"""An image as it should be run: read-only root, another user, no home directory.

Compiled ahead by the user who builds it, nothing is compiled again. Permissions and
mounts are real here; what the user of the tests may not set up is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest
import scipy

from spinney.runtime.kernel_folders import folders_to_read
from spinney.runtime.kernel_sources import PACKAGE, source_digest

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled"),
    pytest.mark.skipif(sys.platform == "win32", reason="permissions differ there"),
    # With scikit-learn 1.6, spinney imports parts of SciPy 1.13 that write a file.
    pytest.mark.skipif(
        scipy.__version__.startswith("1.13."), reason="SciPy needs a temporary folder"
    ),
]

# Prints how many signatures were compiled, and how many loaded.
USE = """
import os, sys
import numpy as np
import spinney
assert spinney.__file__.startswith(os.environ["PYTHONPATH"]), spinney.__file__
from numba.core.dispatcher import Dispatcher
from spinney.runtime.warming import example_forest

forest = example_forest()
rows = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]] * 25, dtype=np.float32)
assert forest.predict(rows).tolist() == [0, 0, 1, 1] * 25
assert forest.predictor()(rows[3]) == 1
kernels = {
    id(thing): thing
    for name, module in list(sys.modules.items())
    if name.startswith("spinney.")
    for thing in vars(module).values()
    if isinstance(thing, Dispatcher)
}.values()
print(sum(sum(each.stats.cache_misses.values()) for each in kernels))
print(sum(sum(each.stats.cache_hits.values()) for each in kernels))
"""


@pytest.fixture(scope="module")
def image():
    """Yield a folder with a copy of the package, and kernels as `warm_up` leaves them.

    Kernels that these tests have compiled before are taken over: the key is the content
    of the sources, not their place.
    """
    # Not among pytest's folders, which are closed to other users.
    root = Path(tempfile.mkdtemp(prefix="spinney-image-"))
    root.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, root / "site" / "spinney", ignore=ignored)
    beside = root / "site" / "spinney" / "__pycache__" / "kernels" / source_digest()
    beside.mkdir(parents=True)
    for known in folders_to_read():
        if known.is_dir():
            for path in known.glob("*.nbc"):
                shutil.copy(path, beside)
    # Afterwards nobody insists on kernels: they serve because they are found.
    insisting = environment(root, SPINNEY_ENGINE="compiled")
    compiled, loaded = numbers(run(USE, root, insisting))
    assert compiled + loaded > 0
    shutil.copytree(beside.parent, root / "elsewhere")
    yield root
    shutil.rmtree(root)


def environment(root, **more):
    """Return the environment of a container: no home directory."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(root / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def run(code, root, variables, before=()):
    return subprocess.run(
        [*before, sys.executable, "-c", code],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def numbers(done):
    assert done.returncode == 0, done.stderr
    compiled, loaded = map(int, done.stdout.split())
    return compiled, loaded


def as_another_user(root):
    """Return what to put before a command so that it may write nothing.

    As root: user nobody, in a name space where the file system is read-only. As another
    user: the same user, who has taken the right to write from the folders.
    """
    if os.geteuid() != 0:
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o555)
        return []
    script = [
        "set -e",
        "mount --make-rprivate /",
        "mount --rbind / /",
        *show_python(root),
        "cd /",
        "mount -o remount,ro,bind /",
        'exec "$@"',
    ]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    before = ["unshare", "--mount", "sh", "-c", "\n".join(script), "sh", *nobody]
    try:
        done = run("import sys; print(sys.version)", root, environment(root), before)
    except OSError as error:
        pytest.skip(f"no name space for mounts: {error}")
    if done.stdout.strip() != sys.version:
        pytest.skip(f"user nobody cannot run this Python: {done.stderr}{done.stdout}")
    touch = "open('probe', 'w')"
    assert "OSError: [Errno 30]" in run(touch, root, environment(root), before).stderr
    return before


def show_python(root):
    """Yield commands that let others see a Python below a folder closed to them."""
    python = Path(sys.base_prefix)
    closed = [path for path in python.parents if not path.stat().st_mode & 0o001]
    if closed:
        (root / "python").mkdir()
        yield f"mount --bind {python} {root}/python"
        yield f"mount -t tmpfs -o mode=755 none {closed[-1]}"
        yield f"mkdir -p {python}"
        yield f"mount --bind {root}/python {python}"


@pytest.fixture(scope="module")
def hardened(image):
    before = as_another_user(image)
    yield before
    for folder, _, _ in os.walk(image):
        os.chmod(folder, 0o755)


def test_kernels_beside_the_package_are_loaded(image, hardened):
    done = run(USE, image, environment(image), hardened)
    compiled, loaded = numbers(done)
    assert compiled == 0
    assert loaded > 0
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["SPINNEY_CACHE_DIR", "NUMBA_CACHE_DIR"])
def test_kernels_in_a_folder_of_choice_are_loaded(image, hardened, name):
    variables = environment(image, **{name: str(image / "elsewhere")})
    done = run(USE, image, variables, hardened)
    compiled, loaded = numbers(done)
    assert compiled == 0
    assert loaded > 0
    assert done.stderr == ""


TINY_USE = """
import os
from spinney.runtime.kernel_cache import kernel

@kernel
def triple(x):
    return 3 * x

assert triple(5) == 15
assert triple(0.5) == 1.5
assert not os.path.exists("~")
print("answered")
"""


def test_what_was_not_compiled_ahead_is_compiled_in_memory_and_told_once(
    image, hardened
):
    variables = environment(image, HOME="/nonexistent")
    done = run(TINY_USE, image, variables, hardened)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "answered\n"
    assert done.stderr.count("cannot be kept") == 1, done.stderr
    assert "warm_up" in done.stderr
    assert "SPINNEY_CACHE_DIR" in done.stderr


def test_an_unknown_user_without_a_home_is_answered(image, hardened):
    if os.geteuid() != 0:
        pytest.skip("only root can become a user that no list of users knows")
    unknown = [part.replace("65534", "47114") for part in hardened]
    done = run(TINY_USE, image, environment(image), unknown)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "answered\n"
    assert not Path(image, "~").exists()
