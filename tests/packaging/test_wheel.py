"""A wheel builds, installs into a clean environment, and serves Python, the shell and a C++ program outside the tree."""

import os
import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command: object, **kwargs: object) -> str:
    """The output; a failure shows all of it."""
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1500, **kwargs)  # type: ignore[call-overload]
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return str(ran.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Built with this environment's tools; ccache makes it quick after ./dev build."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = dict(os.environ, CMAKE_GENERATOR="Ninja")
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    run(
        *(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"),
        # As ./dev build compiles it, so that the compiler cache serves.
        *("-C", "cmake.define.LOADSTONE_WERROR=ON", "-C", f"build-dir={folder / 'build'}", "-w", folder / "dist", ROOT),
        env=environment,
    )
    (built,) = (folder / "dist").glob("loadstone-*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The bin folder of a new virtual environment that holds the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True, symlinks=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check", "-q", wheel)
    return folder / "bin"


@pytest.fixture(scope="module")
def shards(clean: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data") / "shards"
    run(clean / "loadstone", "write", folder, "--shape", "100,8", "--dtype", "float32", "--shards", "5", "--uneven")
    return folder


def test_contents(wheel: pathlib.Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "loadstone/__init__.py",
        "loadstone/py.typed",
        "loadstone/_core.pyi",
        "loadstone/lib/libloadstone.so",
        "loadstone/lib/libloadstone_arrow.so",
        "loadstone/lib/cmake/loadstone/loadstoneConfig.cmake",
        "loadstone/include/loadstone/load.h",
    ):
        assert wanted in names
    assert any(name.startswith("loadstone/_core.") and name.endswith(".so") for name in names)
    assert any(name.endswith(".data/scripts/loadstone") for name in names)
    assert not [name for name in names if name.endswith((".a", ".cc", "_test.py")) or "/bin/" in name]
    assert sum(name.endswith(".so") for name in names) == 3


def test_command_and_package_agree(clean: pathlib.Path) -> None:
    said = run(clean / "loadstone", "--version").split()
    version = run(clean / "python", "-c", "import loadstone; print(loadstone.__version__)").strip()
    assert version in said and run(clean / "python", "-m", "loadstone", "--version").strip() == version
    # The native program: no interpreter starts.
    assert (clean / "loadstone").read_bytes()[:4] == b"\x7fELF"


def test_the_command_needs_no_python(clean: pathlib.Path, shards: pathlib.Path, tmp_path: pathlib.Path) -> None:
    moved = tmp_path / "loadstone"
    shutil.copy2(clean / "loadstone", moved)
    run(moved, "load", shards, "--mesh", "x=2,y=2", "--spec", "x,y", "--verify", env={"PATH": "/usr/bin:/bin"})


def test_python_loads(clean: pathlib.Path, shards: pathlib.Path) -> None:
    code = (
        "import sys, loadstone as ls; ds = ls.open(sys.argv[1]); "
        "p = ls.load(ds, ls.Sharding(ls.Mesh({'x': 4}), ('x',)), verify=True); print(p.numpy().shape)"
    )
    assert run(clean / "python", "-W", "error", "-c", code, shards).strip() == "(100, 8)"


def test_types_reach_users(clean: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import loadstone as ls\n"
        "placement = ls.load(ls.open('x'), ls.Sharding(ls.Mesh({'x': 4}), ('x',)))\n"
        "reveal_type(placement)\nreveal_type(placement.shards[0].data.shape)\nreveal_type(ls.load(ls.open('x'), array=['a']))\n"
    )
    said = run(sys.executable, "-m", "mypy", "--strict", "--python-executable", clean / "python", program)
    for kind in ("Placement", "tuple[int, ...]", "dict[str, "):
        assert kind in said.replace("builtins.", "")


def test_a_cxx_program_builds_against_it(clean: pathlib.Path, shards: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cmake_dir = run(clean / "python", "-m", "loadstone", "--cmake-dir").strip()
    source = tmp_path / "consumer"
    shutil.copytree(pathlib.Path(__file__).with_name("consumer"), source)
    run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja", f"-Dloadstone_DIR={cmake_dir}")
    run("cmake", "--build", source / "build")
    said = run(source / "build" / "consumer", shards)
    assert said.splitlines()[0].startswith("cpu:0 [0:50, 0:4] 800 bytes")
    assert "caught: '/nothing/here.npy'" in said
    assert said.splitlines()[-1].startswith("version ")
