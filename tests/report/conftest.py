"""Settings for all tests of reports."""

from __future__ import annotations

import pytest

from spinney.report import timing


@pytest.fixture(scope="session", autouse=True)
def short_measurements():
    """Let reports measure times briefly: here they need only be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "SECONDS", 0.01)
        yield
