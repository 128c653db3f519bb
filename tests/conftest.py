"""Settings and fitted models that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# The process that only hands out tests reads this file too: it need not wait for Numba
# and scikit-learn.
WITHOUT_JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
# The small rows of tests would not be worth compiling for: kernels are what is tested,
# and the plain engine where a test says so.
os.environ.setdefault("SPINNEY_ENGINE", "compiled")
# Kernels that run as plain Python are about a hundred times slower. `make slow` tries
# many more examples than anybody would wait for after each change.
N_EXAMPLES = int(os.environ.get("SPINNEY_EXAMPLES", 12 if WITHOUT_JIT else 50))

# The first example of a test may compile a kernel, so no example has a time limit.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=N_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples on every run: a red run is about the change, not about the dice.
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config):
    # Compiled integers wrap around in silence; the same lines as plain Python warn. So
    # they do where a block is rounded to more rows than it has, whose values are
    # whatever was in memory and count for nothing.
    if WITHOUT_JIT:
        for words in (
            "overflow encountered in scalar",
            "invalid value encountered in (floor|trunc)",
        ):
            config.addinivalue_line("filterwarnings", f"ignore:{words}:RuntimeWarning")


@pytest.fixture(scope="session")
def cancer_model():
    """A fully grown random forest of scikit-learn, and the rows it was trained on."""
    from sklearn.ensemble import RandomForestClassifier

    import datasets

    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(n_estimators=25, random_state=0).fit(X, y)
    return model, X


@pytest.fixture(scope="session")
def short_measurements():
    """Let reports measure times briefly: in tests they need only be there."""
    from spinney.report import timing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "SECONDS", 0.01)
        yield
