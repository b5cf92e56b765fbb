"""What people see: repr, str, notebook pictures; the package itself."""

import importlib.metadata
import pathlib
import subprocess
import sys
import xml.dom.minidom

import loadstone as ls
import numpy as np
import pytest
from support import save_npy


@pytest.fixture
def ds(tmp_path: pathlib.Path) -> ls.Catalog:
    folder = tmp_path / "weights <b>"
    folder.mkdir()
    save_npy(folder, np.zeros((8, 6), np.float32), [0, 3, 8])
    return ls.open(folder, name="weights <b>")


def well_formed(text: str) -> None:
    xml.dom.minidom.parseString(f"<x>{text}</x>")


def test_catalog(ds: ls.Catalog) -> None:
    assert "float32" in repr(ds) and "(8, 6)" in str(ds)
    page = ds._repr_html_()
    well_formed(page)
    assert "float32" in page and "<b>" not in page
    assert repr(ds.arrays[0]) == "ArrayInfo('weights <b>', shape=(8, 6), dtype=float32)"


def test_mesh_and_sharding() -> None:
    mesh = ls.Mesh({"x": 2, "y": 4}, processes=4)
    assert repr(mesh) == "Mesh({'x': 2, 'y': 4}, 8 devices, 2 processes)"
    sharding = ls.Sharding(mesh, ("x", None), uneven="ceil")
    assert repr(sharding) == f"Sharding({mesh!r}, P('x', None), uneven='ceil')"
    well_formed(sharding._repr_html_())
    tiles, folded, whole = ls.Sharding.row_tiles(3), ls.Sharding(mesh, (("x", "y"), None)), ls.Sharding(mesh, ())
    for other in (sharding, tiles, folded, whole, ls.Sharding.single()):
        page = other._repr_html_()
        well_formed(page)
        assert "<svg" in page and "one element in each shard" in page
    assert "[2:3, :]: d2 cpu:2 process 0" in folded._repr_html_()
    assert repr(ls.Sharding.row_tiles(3)) == "Sharding.row_tiles(3 devices)"
    shard = ls.Sharding(mesh, ("x", "y")).shards((4, 8))[5]
    assert repr(shard) == "Shard(cpu:5, id=5, process=1, index=[2:4, 2:4], replica_id=0)"


@pytest.mark.parametrize(
    ("axes", "spec", "shape"),
    [
        ({"x": 8}, ("x",), (16,)),
        ({"x": 2, "y": 4}, ("x", "y"), (8, 8)),
        ({"x": 2, "y": 2, "z": 2}, ("x", "y", "z"), (4, 4, 4)),
        ({"x": 4}, (), (3, 3)),
        ({"x": 4}, (), ()),
    ],
)
def test_drawings(axes: dict[str, int], spec: tuple[str, ...], shape: tuple[int, ...]) -> None:
    drawing = ls.Sharding(ls.Mesh(axes), spec).draw(shape)
    assert repr(drawing) == str(drawing) == drawing.text and drawing.text.strip()
    assert max(map(len, drawing.text.splitlines())) <= 100
    document = xml.dom.minidom.parseString(drawing._repr_svg_())
    assert document.documentElement.tagName == "svg"
    words = "".join(node.firstChild.data for node in document.getElementsByTagName("text") if node.firstChild)
    for device in range(len(ls.Sharding(ls.Mesh(axes), spec).shards(shape))):
        assert str(device) in words


def test_plan(ds: ls.Catalog) -> None:
    plan = ls.plan(ds, ls.Sharding(ls.Mesh({"x": 2, "y": 3}), ("x", "y")))
    assert str(plan) == repr(plan) and "per_process" in str(plan)
    assert plan.strategy == "per_process" and plan.process == 0
    assert plan.totals["bytes_needed"] == plan.totals["bytes_placed"] == 8 * 6 * 4
    assert [s.id for s in plan.shards] == list(range(6)) and plan.names == ds.names and plan.shapes == [(8, 6)]
    assert "global" in plan.explain()
    document = plan.json()
    assert isinstance(document, dict) and document["strategy"] == "per_process"
    assert plan.fingerprint == ls.plan(ds, ls.Sharding(ls.Mesh({"x": 2, "y": 3}), "x,y")).fingerprint
    assert plan.fingerprint != ls.plan(ds, ls.Sharding(ls.Mesh({"x": 2, "y": 3}), "y,x", uneven="ceil")).fingerprint
    assert xml.dom.minidom.parseString(plan._repr_svg_()).documentElement.tagName == "svg"
    assert "<svg" in plan._repr_html_() and "per_process" in plan._repr_html_()


def test_placement_and_verdict(ds: ls.Catalog) -> None:
    placement = ls.load(ds, ls.Sharding(ls.Mesh({"x": 2}), ("x",)), verify=True)
    assert repr(placement) == "Placement(weights <b>, shape=(8, 6), dtype=float32, 2 shards, verified)"
    well_formed(placement._repr_html_())
    verdict = placement.verdict
    assert verdict is not None and "L0" in str(verdict) and repr(verdict) == str(verdict)
    assert "proven" in verdict._repr_html_()
    well_formed(verdict._repr_html_())


def test_the_package() -> None:
    assert ls.__version__ == importlib.metadata.version("loadstone")
    assert set(ls.__all__) <= set(dir(ls))
    for name in ls.__all__:
        value = getattr(ls, name)
        assert name.startswith("__") or value.__doc__, name
    folder = pathlib.Path(ls.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists()
    assert (folder / "include" / "loadstone" / "load.h").exists()


@pytest.mark.parametrize(("option", "tail"), [("--cmake-dir", "lib/cmake/loadstone"), ("--include-dir", "include")])
def test_main(option: str, tail: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "loadstone", option], capture_output=True, text=True, check=True)
    folder = pathlib.Path(ran.stdout.strip())
    assert folder.is_dir() and str(folder).endswith(tail)


def test_versions_agree() -> None:
    ran = subprocess.run([sys.executable, "-m", "loadstone", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ls.__version__
    command = pathlib.Path(sys.executable).with_name("loadstone")
    native = subprocess.run([str(command), "--version"], capture_output=True, text=True, check=True)
    assert ls.__version__ in native.stdout.split()
    assert command.read_bytes()[:4] == b"\x7fELF", "the native program, not a Python script"


def test_importing_is_light() -> None:
    code = "import sys, loadstone; print([m for m in ('jax', 'torch', 'scipy', 'tqdm') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_write_dataset(tmp_path: pathlib.Path) -> None:
    files = ls.write_dataset(tmp_path / "a", (100, 4), np.int16, shards=7, uneven=True, seed=5)
    assert len(files) == 7
    one = ls.write_dataset(tmp_path / "b", (100, 4), "int16", seed=5)
    assert (ls.load(ls.open(files)).numpy() == ls.load(ls.open(one)).numpy()).all()
    with pytest.raises(ValueError, match="empty"):
        ls.write_dataset(tmp_path / "a", (100, 4))
    ls.write_dataset(tmp_path / "a", (100, 4), replace=True)
