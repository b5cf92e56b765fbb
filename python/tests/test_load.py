"""ls.load beyond the property tests: destinations, progress, interrupts, budgets, fork."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from typing import Any

import loadstone as ls
import numpy as np
import pytest
from support import save_npy

ARRAY = np.arange(10 * 6, dtype=np.int32).reshape(10, 6)


@pytest.fixture
def ds(tmp_path: pathlib.Path) -> ls.Catalog:
    save_npy(tmp_path, ARRAY, [0, 3, 3, 8, 10])
    return ls.open(tmp_path)


# covers: sharding R2
def test_defaults_to_one_device(ds: ls.Catalog) -> None:
    placement = ls.load(ds)
    (shard,) = placement.shards
    assert (shard.device, shard.id, shard.process, shard.replica_id) == ("cpu:0", 0, 0, 0)
    assert shard.index == (slice(None), slice(None)) and shard.box == ((0, 10), (0, 6))
    assert (placement.numpy() == ARRAY).all()
    assert placement.plan is not None and placement.plan.totals["bytes_read"] == ARRAY.nbytes
    assert placement.stats["bytes_read"] == ARRAY.nbytes and placement.verdict is None
    assert isinstance(placement.stats["bytes_read"], int)


def test_a_mesh_without_a_spec_is_refused(ds: ls.Catalog) -> None:
    with pytest.raises(ValueError, match="mesh without a spec"):
        ls.load(ds, ls.Mesh({"x": 2}))
    with pytest.raises(TypeError, match="Sharding"):
        ls.load(ds, "x")


def test_only_one_process(ds: ls.Catalog) -> None:
    sharding = ls.Sharding(ls.Mesh({"x": 2, "y": 2}, processes=2), ("x", "y"))
    placement = ls.load(ds, sharding, process=1)
    assert [s.id for s in placement.shards] == [2, 3] and placement.process == 1
    assert placement.stats["bytes_read"] == ARRAY.nbytes // 2
    with pytest.raises(ValueError, match="cover"):
        placement.numpy()


class TestOut:
    def test_single(self, ds: ls.Catalog) -> None:
        out = np.zeros((10, 6), np.int32)
        placement = ls.load(ds, out=out, verify=True)
        assert (out == ARRAY).all() and placement.shards[0].data.ptr == out.ctypes.data

    def test_one_for_each_device(self, ds: ls.Catalog) -> None:
        sharding = ls.Sharding(ls.Mesh({"x": 2, "y": 2}, devices=[3, 1, 2, 0]), ("x", "y"))
        out = [np.zeros((5, 3), np.int32) for _ in range(4)]
        placement = ls.load(ds, sharding, out=out)
        for array, shard in zip(out, placement.shards, strict=True):
            assert (array == ARRAY[shard.index]).all()
            assert shard.data.device == (1, shard.id)

    def test_any_buffer(self, ds: ls.Catalog) -> None:
        import ctypes

        block = ((ctypes.c_int32 * 6) * 10)()
        ls.load(ds, out=block)
        assert (np.asarray(block) == ARRAY).all()

    def test_arrays_are_kept_alive(self, ds: ls.Catalog) -> None:
        class Array(np.ndarray):
            pass

        out = np.zeros((10, 6), np.int32).view(Array)
        seen = weakref.ref(out)
        placement = ls.load(ds, out=out)
        view = placement.shards[0].data
        del out, placement
        assert seen() is not None and (np.asarray(view) == ARRAY).all()
        del view
        assert seen() is None

    REFUSED = [
        (np.zeros((10, 6), np.int64), ValueError, "dtype: expected int32, found int64"),
        (np.zeros((6, 10), np.int32), ValueError, r"shape: expected \(10, 6\), found \(6, 10\)"),
        (np.zeros((10, 6), np.int32, order="F"), ValueError, "not C-contiguous"),
        (np.zeros((10, 6), ">i4"), ValueError, "big-endian"),
        ([np.zeros((10, 6), np.int32)] * 2, ValueError, "expected one array for each of the 1 local devices, found 2"),
        ([], ValueError, "found 0"),
        (3, TypeError, "expected an array in host memory, found int"),
        ([[1, 2], [3, 4]], TypeError, "expected an array in host memory, found list"),
    ]

    @pytest.mark.parametrize(("out", "kind", "words"), REFUSED)
    def test_refused(self, ds: ls.Catalog, out: Any, kind: type[Exception], words: str) -> None:
        with pytest.raises(kind, match=words):
            ls.load(ds, out=out)

    # covers: memory_view T23
    def test_read_only_is_never_written(self, ds: ls.Catalog) -> None:
        out = np.zeros((10, 6), np.int32)
        out.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            ls.load(ds, out=out)
        with pytest.raises(ValueError, match="read-only|dtype|shape"):
            ls.load(ds, out=bytes(240))
        assert not out.any()

    def test_shared_memory_is_refused(self, ds: ls.Catalog) -> None:
        sharding = ls.Sharding(ls.Mesh({"x": 2}), ("x",))
        block = np.zeros((9, 6), np.int32)
        with pytest.raises(ValueError, match="arrays 0 and 1 share memory"):
            ls.load(ds, sharding, out=[block[:5], block[4:]])
        assert not block.any()


def test_several_arrays(tmp_path: pathlib.Path) -> None:
    # Two directories of one array each are not one catalog: only formats with many arrays have several. One is enough
    # for the form of the answer.
    np.save(tmp_path / "w.npy", ARRAY)
    ds = ls.open(tmp_path / "w.npy")
    (name,) = ds.names
    many = ls.load(ds, {name: ls.Sharding(ls.Mesh({"x": 2}), ("x",))}, array=[name])
    assert list(many) == [name] and len(many[name].shards) == 2
    assert list(ls.load(ds, array=["*"])) == [name]
    assert ls.load(ds, array=name).name == name
    with pytest.raises(ValueError, match="no entry for"):
        ls.load(ds, {"other": None})
    with pytest.raises(ValueError, match=f"(?s)nothing.*{name}"):
        ls.load(ds, array="nothing")
    with pytest.raises(ValueError, match="empty"):
        ls.load(ds, array=[])


# covers: loading E13
def test_memory_budget(ds: ls.Catalog) -> None:
    with pytest.raises(ls.ResourceError, match="budget") as caught:
        ls.load(ds, memory_budget=100)
    assert isinstance(caught.value, OSError) and caught.value.kind == "system"
    assert (ls.load(ds, memory_budget="1 GiB").numpy() == ARRAY).all()
    with pytest.raises(ValueError, match="not a size"):
        ls.load(ds, memory_budget="much")


def test_unknown_words(ds: ls.Catalog) -> None:
    with pytest.raises(ValueError, match="per_process"):
        ls.load(ds, strategy="fast")
    with pytest.raises(ValueError, match="verify"):
        ls.load(ds, verify="twice")


class TestProgress:
    @pytest.fixture
    def large(self, tmp_path: pathlib.Path) -> ls.Catalog:
        ls.write_dataset(tmp_path / "d", (4000, 1000), "float32", shards=3)
        return ls.open(tmp_path / "d")

    # covers: loading E14
    def test_callback(self, large: ls.Catalog) -> None:
        updates: list[ls.Progress] = []
        ls.load(large, progress=updates.append, verify=True)
        assert {u.stage for u in updates} >= {"load", "verify"}
        last = [u for u in updates if u.stage == "load"][-1]
        assert last.done_bytes == last.total_bytes == 16_000_000 and last.seconds > 0

    def test_what_the_callback_raises_stops_the_load(self, large: ls.Catalog) -> None:
        def stop(update: ls.Progress) -> None:
            raise LookupError("enough")

        with pytest.raises(LookupError, match="enough"):
            ls.load(large, progress=stop)
        assert threading.active_count() == 1

    def test_bar(self, large: ls.Catalog, capsys: pytest.CaptureFixture[str]) -> None:
        ls.load(large, progress=True)
        capsys.readouterr()
        with pytest.raises(TypeError, match="progress"):
            ls.load(large, progress=3)  # type: ignore[arg-type]

    def test_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        from types import SimpleNamespace

        from loadstone import _progress

        update: Any = SimpleNamespace(stage="load", done_bytes=500_000_000, total_bytes=10**9, seconds=0.5)
        assert _progress.line_text(update) == "load  50% 500.00 MB of 1.00 GB, 1.00 GB/s, 0.5 s left"
        update.total_bytes = 0
        assert _progress.line_text(update) == "load 500.00 MB, 1.00 GB/s"
        _progress._line(update)
        assert "500.00 MB" in capsys.readouterr().err


SLOW = """
import os, signal, sys, threading, time
import loadstone as ls
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job started in the background ignores it
ds = ls.open(sys.argv[1])
def stop():
    time.sleep(0.3)
    print("kill", time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=stop, daemon=True).start()
try:
    while True:
        ls.load(ds, ls.Sharding(ls.Mesh({"x": 8}), ()), strategy="per_device", threads=4)
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), len(os.listdir("/proc/self/task")), flush=True)
"""


# covers: loading E10
def test_ctrl_c(tmp_path: pathlib.Path) -> None:
    ls.write_dataset(tmp_path / "d", (4000, 2000), "float64", shards=4)
    ran = subprocess.run([sys.executable, "-c", SLOW, str(tmp_path / "d")], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    killed, stopped = (line.split() for line in ran.stdout.splitlines())
    assert stopped[0] == "interrupted" and float(stopped[1]) - float(killed[1]) < 1.0


def test_signal_handlers_own_exceptions_come_out(tmp_path: pathlib.Path) -> None:
    class Alarm(Exception):
        pass

    def handler(signum: int, frame: object) -> None:
        raise Alarm

    ls.write_dataset(tmp_path / "d", (8000, 2000), "float64", shards=4)
    ds = ls.open(tmp_path / "d")
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            while True:
                ls.load(ds, threads=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_gil_is_released(tmp_path: pathlib.Path) -> None:
    ls.write_dataset(tmp_path / "d", (8000, 2000), "float64", shards=4)
    ds = ls.open(tmp_path / "d")
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    before = ticks
    while time.monotonic() - start < 0.3:
        ls.load(ds)
    counted = ticks - before
    done.set()
    thread.join()
    assert counted > 20


FORK = """
import os, sys
import numpy as np
import loadstone as ls
ds = ls.open(sys.argv[1])
whole = ls.load(ds, threads=4).numpy()
child = os.fork()
if child == 0:
    os._exit(0 if (ls.load(ds, threads=4, verify=True).numpy() == whole).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_fork_after_a_load(ds: ls.Catalog, tmp_path: pathlib.Path) -> None:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", FORK, str(tmp_path)], capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_nothing_is_held_after_a_failed_load(tmp_path: pathlib.Path) -> None:
    paths = save_npy(tmp_path, np.zeros((4, 1 << 20), np.float64), [0, 2, 4])
    ds = ls.open(tmp_path)
    os.truncate(paths[1], 1000)

    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    with pytest.raises(ls.DataError):
        ls.load(ds)
    before = resident()
    for _ in range(5):
        with pytest.raises(ls.DataError, match="shard_0001"):
            ls.load(ds)
    assert resident() - before < 16 << 20
    assert not tracemalloc.is_tracing()


# covers: loading R13
def test_a_file_that_changed_is_refused(ds: ls.Catalog, tmp_path: pathlib.Path) -> None:
    os.utime(tmp_path / "shard_0000.npy", ns=(1, 1))
    with pytest.raises(ls.DataError, match="changed") as caught:
        ls.load(ds)
    assert caught.value.file.endswith("shard_0000.npy")
