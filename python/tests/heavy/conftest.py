"""The heavy suites need gigabytes of wheels: ./dev test --all installs them; elsewhere they are skipped by name."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "heavy: needs packages of several gigabytes")
