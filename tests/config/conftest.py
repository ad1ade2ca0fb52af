from functools import partial

import pytest

from tests.support.configs import forget_settings, load_tables


@pytest.fixture(autouse=True)
def _no_settings_of_the_tester(monkeypatch):
    forget_settings(monkeypatch)


@pytest.fixture
def load(tmp_path):
    """A function that reads a configuration of these tables."""
    return partial(load_tables, tmp_path)
