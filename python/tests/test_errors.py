"""One Python type for each kind of error, with the facts a program can act on."""

import errno
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

import loadstone as ls
import numpy as np
import pytest


def test_usage_is_a_value_error() -> None:
    with pytest.raises(ls.UsageError) as caught:
        ls.Sharding(ls.Mesh({"x": 3}), ("x",)).check((4,), "w")
    assert isinstance(caught.value, ValueError) and caught.value.kind == "usage"
    assert str(caught.value).startswith("'w': dimension 0 (size 4)")


# covers: faults F14
def test_data_errors_name_the_file(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100))
    os.truncate(tmp_path / "a.npy", 200)
    with pytest.raises(ls.DataError) as caught:
        ls.open(tmp_path / "a.npy")
    error = caught.value
    assert isinstance(error, ValueError) and error.kind == "data"
    assert error.file.endswith("a.npy") and error.expected and error.found
    assert "a.npy" in str(error)


def test_missing_paths(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ls.open(tmp_path / "nothing.npy")
    error = caught.value
    assert isinstance(error, ls.MissingFileError) and isinstance(error, ls.ResourceError) and isinstance(error, OSError)
    assert error.errno == errno.ENOENT and error.filename and error.filename.endswith("nothing.npy")
    assert error.kind == "system" and "nothing.npy" in str(error) and "[Errno" not in str(error)
    with pytest.raises(FileNotFoundError):
        ls.open(str(tmp_path / "*.npy"))


AS_NOBODY = """
import errno, os, sys
import loadstone as ls
if os.geteuid() == 0:
    os.setuid(65534)  # root may read everything
try:
    ls.open(sys.argv[1])
except PermissionError as error:
    assert isinstance(error, ls.AccessError) and error.errno == errno.EACCES and error.filename == sys.argv[1], error
else:
    sys.exit("opened")
"""


def test_permissions() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = pathlib.Path(folder) / "a.npy"
        np.save(path, np.arange(3))
        path.chmod(0)
        ran = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def test_permission_errors_have_the_right_type() -> None:
    from loadstone._errors import make

    error = make("system", "'x': cannot open: permission denied", errno.EACCES, "x", "", "")
    assert isinstance(error, PermissionError) and isinstance(error, ls.AccessError) and error.filename == "x"
    bug = make("internal", "oops", 0, "", "", "")
    assert isinstance(bug, RuntimeError) and isinstance(bug, ls.InternalError)


def test_errors_can_be_pickled(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ls.MissingFileError) as caught:
        ls.open(tmp_path / "nothing.npy")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ls.MissingFileError and str(again) == str(caught.value)
    assert again.errno == caught.value.errno and again.filename == caught.value.filename and again.kind == "system"
    usage = ls.UsageError("no")
    usage.file = "f"
    assert pickle.loads(pickle.dumps(usage)).file == "f"
