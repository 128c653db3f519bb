"""Settings for all tests of reports."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def all_measurements_are_short(short_measurements):
    """Let all reports made here measure times briefly."""
