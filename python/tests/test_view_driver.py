"""Memory views on a machine with two GPUs, which the stand-in driver plays: on_fake_driver_*.py, each file a process."""

import pathlib
import subprocess
import sys

import fake_driver
import pytest

OPTIONS = {"on_fake_driver_order": "devices=2,delay_us=2000"}
FILES = sorted(pathlib.Path(__file__).parent.glob("on_fake_driver_*.py"))


@pytest.mark.skipif(fake_driver.library() is None, reason="the stand-in driver is built with the C++ tests")
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_on_the_stand_in_driver(file: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        env=fake_driver.environment(OPTIONS.get(file.stem, "devices=2")),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
