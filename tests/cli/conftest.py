import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from loadstone_cli import good  # noqa: E402


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1000 x 16 float32 in 5 uneven files, never changed by a test."""
    folder = tmp_path_factory.mktemp("data") / "shards"
    good("write", folder, "--shape", "1000,16", "--dtype", "float32", "--shards", 5, "--uneven", "--seed", 3)
    return folder


@pytest.fixture(scope="session")
def manifest(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manifest") / "M.json"
    good("digest", data, "--output", path)
    return path
