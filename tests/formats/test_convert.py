"""convert: every format into every other, any cut of the rows, nothing half done."""

import itertools
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import loadstone as ls
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import pytest
from loadstone_cli import BINARY, environment, failing, files_in, good
from reference import EXTENSIONS, read

Array = npt.NDArray[Any]
FORMATS = list(EXTENSIONS)


def whole(paths: Any, name: str | None = None, **options: Any) -> Array:
    return np.asarray(ls.load(ls.open(paths, **options), array=name).shards[0].data)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """Six files of 0 to 40 rows."""
    folder = tmp_path_factory.mktemp("uneven") / "rows"
    folder.mkdir()
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((rows, 3, 4)).astype(np.float32) for rows in (40, 0, 7, 1, 33, 12)]
    for i, part in enumerate(parts):
        np.save(folder / f"p_{i}.npy", np.asfortranarray(part) if i == 2 else part.astype(">f4") if i == 4 else part)
    return folder, np.concatenate(parts)


def test_every_format_into_every_other(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    source, want = uneven
    sources = {"npy": source}
    for format in FORMATS[1:]:
        sources[format] = tmp_path / f"from_{format}"
        made = ls.convert(source, sources[format], format=format, verify=True)
        assert [rows[0] for rows in made.rows] == [40, 0, 7, 1, 33, 12], "as the source is cut"
    for one, other in itertools.product(sources, FORMATS):
        made = ls.convert(sources[one], tmp_path / f"{one}-{other}", format=other, rows_per_shard=50, verify=True)
        assert [rows[0] for rows in made.rows] == [50, 43]
        if other != "raw":
            name = "" if other.startswith("zarr") else made.names[0]
            got = np.concatenate([read(other, Path(f), name) for f in made.files])
            assert got.shape == want.shape and got.tobytes() == want.tobytes(), (one, other)
        assert whole(tmp_path / f"{one}-{other}").tobytes() == want.tobytes(), (one, other)


def test_one_file_by_its_extension(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    source, want = uneven
    for extension in (".npy", ".npz", ".safetensors", ".arrow", ".feather", ".parquet", ".h5", ".hdf5", ".zarr"):
        made = ls.convert(source, tmp_path / f"x{extension}", verify=True)
        assert made.files == [str(tmp_path / f"x{extension}")] and len(made.digests) == 1
        assert whole(made.files).tobytes() == want.tobytes()
    made = ls.convert(source, tmp_path / "x.bin", verify=True)
    assert Path(made.files[0]).read_bytes() == want.tobytes()
    made = ls.convert(source, tmp_path / "y.zarr", format="zarr2", compress="zlib", verify=True)
    assert (tmp_path / "y.zarr" / ".zarray").exists()
    with pytest.raises(ls.UsageError, match="is one file: it cannot hold 2 shards"):
        ls.convert(source, tmp_path / "z.h5", shards=2)


def test_cuts(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    source, want = uneven
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"shards": 4}, [24, 23, 23, 23]),
        ({"shards": 1}, [93]),
        ({"rows_per_shard": 93}, [93]),
        ({"rows_per_shard": 40}, [40, 40, 13]),
        ({"shard_bytes": 48 * 40 + 47}, [40, 40, 13]),
        ({"shard_bytes": 1}, [1] * 93),
        ({"shard_bytes": "1 GiB"}, [93]),
    ]
    for options, rows in cases:
        made = ls.convert(source, tmp_path / "out", replace=True, **options)
        assert [r[0] for r in made.rows] == rows and ls.open(tmp_path / "out").rows == rows
        assert whole(tmp_path / "out").tobytes() == want.tobytes()
    for options in ({"shards": 2, "rows_per_shard": 3}, {"shards": 0}, {"rows_per_shard": -1}, {"shard_bytes": 0}):
        with pytest.raises(ls.UsageError):
            ls.convert(source, tmp_path / "bad", **options)


def several(rows: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    return {name: rng.integers(0, 99, (n, 2 + i)).astype(f"i{2 << i}") for i, (name, n) in enumerate(rows.items())}


def test_many_arrays(tmp_path: Path) -> None:
    arrays = several({"a": 30, "b": 30, "c": 30})
    np.savez(tmp_path / "s.npz", **arrays)
    for format in ("npz", "safetensors", "hdf5", "zarr", "zarr2", "arrow", "parquet"):
        made = ls.convert(tmp_path / "s.npz", tmp_path / format, format=format, rows_per_shard=13, verify=True)
        assert made.names == ["a", "b", "c"] and made.rows == [[13] * 3, [13] * 3, [4] * 3]
        for name, want in arrays.items():
            assert np.concatenate([read(format, Path(f), name) for f in made.files]).tobytes() == want.tobytes()
            assert whole(tmp_path / format, name, array=name).tobytes() == want.tobytes()
    with pytest.raises(ls.UsageError, match="npy files hold one array: found 3"):
        ls.convert(tmp_path / "s.npz", tmp_path / "x", format="npy")
    made = ls.convert(tmp_path / "s.npz", tmp_path / "b.npy", array="b")
    assert np.load(tmp_path / "b.npy").tobytes() == arrays["b"].tobytes()


def test_arrays_of_unequal_rows(tmp_path: Path) -> None:
    arrays = {**several({"a": 30, "b": 7}), "scalar": np.array(2.5)}
    np.savez(tmp_path / "s.npz", **arrays)
    for destination in ("m.safetensors", "m.h5", "m.zarr"):
        ls.convert(tmp_path / "s.npz", tmp_path / destination, verify=True)
        for name, want in arrays.items():
            assert whole(tmp_path / destination, name, array=name).tobytes() == want.tobytes()
    made = ls.convert(tmp_path / "s.npz", tmp_path / "cut", format="hdf5", array=["a", "b"], shards=4, verify=True)
    assert made.rows == [[8, 2], [8, 2], [7, 2], [7, 1]]
    bad: list[tuple[dict[str, Any], str]] = [
        ({"format": "parquet", "array": ["a", "b"]}, "'b' has 7 rows and 'a' 30"),
        ({"format": "hdf5", "array": ["a", "b"], "rows_per_shard": 4}, "use --shards"),
        ({"format": "hdf5", "shards": 2}, "0-d"),
        ({"format": "arrow", "array": ["a", "scalar"]}, "a 0-d array has no rows"),
    ]
    for options, words in bad:
        with pytest.raises(ls.UsageError, match=words):
            ls.convert(tmp_path / "s.npz", tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


def test_columns_and_options_of_the_source(tmp_path: Path) -> None:
    table = pa.table({"u": np.arange(9.0), "v": np.arange(9.0) * 2, "t": ["x"] * 9})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    ls.convert(tmp_path / "t.parquet", tmp_path / "uv.npy", columns=["u", "v"])
    assert np.load(tmp_path / "uv.npy").tolist() == [[i, 2.0 * i] for i in range(9)]
    (tmp_path / "r.bin").write_bytes(np.arange(12, dtype=">i2").tobytes())
    good("convert", tmp_path / "r.bin", tmp_path / "r.npy", "--raw", "--dtype", ">i2", "--row-shape", "3")
    assert np.load(tmp_path / "r.npy").tolist() == np.arange(12).reshape(4, 3).tolist()
    good("convert", tmp_path / "r.bin", tmp_path / "q.npy", "--source-format", "raw", "--dtype", "i4", "--row-shape", "3")
    with pytest.raises(TypeError, match="columns is for paths"):
        ls.convert(ls.open(tmp_path / "r.npy"), tmp_path / "x", columns=["u"])


def test_a_lost_type_is_told(tmp_path: Path) -> None:
    ls.write_dataset(tmp_path / "a", (6, 2), "bfloat16", format="safetensors", name="w")
    made = ls.convert(tmp_path / "a", tmp_path / "w.npy", verify=True)
    assert made.notes == ["'w': npy has no bfloat16: load it with --dtype bfloat16"]
    assert whole(tmp_path / "w.npy", dtype="bfloat16").tobytes() == whole(tmp_path / "a").tobytes()


def test_what_is_there_is_not_replaced_unasked(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    source, want = uneven
    (tmp_path / "x.npy").write_bytes(b"mine")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine.txt").write_text("mine")
    (tmp_path / "s.zarr").mkdir()
    (tmp_path / "s.zarr" / "mine.txt").write_text("mine")
    (tmp_path / "link.npy").symlink_to(tmp_path / "x.npy")
    before = files_in(tmp_path)
    for name, options, words in [
        ("x.npy", {}, "exists; --replace"),
        ("d", {}, "not empty.*mine.txt"),
        ("d", {"replace": True}, "no .loadstone-write.json"),
        ("s.zarr", {}, "exists; --replace"),
        ("s.zarr", {"replace": True}, "mine.txt"),
        ("link.npy", {"replace": True}, "no regular file"),
        ("x.npy/y", {}, "not a directory|Not a directory"),
    ]:
        with pytest.raises((ls.UsageError, ls.ResourceError), match=words):
            ls.convert(source, tmp_path / name, **options)
    assert files_in(tmp_path) == before and (tmp_path / "x.npy").read_bytes() == b"mine"
    ls.convert(source, tmp_path / "x.npy", replace=True)
    assert np.load(tmp_path / "x.npy").tobytes() == want.tobytes()
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        ls.convert(source, tmp_path / "empty", format="zarr", shards=2, replace=True)
    ls.convert(tmp_path / "empty", tmp_path / "empty", format="npy", shards=3, replace=True)  # onto itself
    assert whole(tmp_path / "empty").tobytes() == want.tobytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_damaged_source_makes_nothing(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    good("convert", uneven[0], tmp_path / "s.npz", "--compress", "deflate")
    data = bytearray((tmp_path / "s.npz").read_bytes())
    data[len(data) // 2] ^= 0x10
    (tmp_path / "s.npz").write_bytes(data)
    with pytest.raises(ls.DataError, match="s.npz"):
        ls.convert(tmp_path / "s.npz", tmp_path / "a" / "b" / "out", format="hdf5")
    assert files_in(tmp_path) == ["s.npz"] and not (tmp_path / "a").exists()


def limited(size: int) -> Any:
    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@pytest.mark.parametrize("format", FORMATS)
# covers: loading E18
def test_a_full_disk_leaves_nothing(format: str, tmp_path: Path) -> None:
    # The private copy of libhdf5 is a file of 6 MB in memory.
    columns, limit = (1000, 7_000_000) if format == "hdf5" else (50, 100_000)
    good("write", tmp_path / "src", "--shape", f"4000,{columns}", "--shards", 2)
    before = files_in(tmp_path)
    for words in (
        ["write", tmp_path / "out", "--shape", f"4000,{columns}", "--format", format, "--shards", 2],
        ["convert", tmp_path / "src", tmp_path / "out", "--format", format, "--shards", 2],
    ):
        result = failing(4, *words, env=environment(), preexec_fn=limited(limit))
        assert "out" in result.err and "File too large" in result.err, result.err
        assert files_in(tmp_path) == before and not (tmp_path / "out").exists()


# A process of its own: of a child, the kernel counts what its parent had when it was forked.
MEASURED = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, file=sys.stderr)
"""


def peak_memory(*words: Any) -> int:
    """Bytes that a command used at most."""
    command = [sys.executable, "-ISc", MEASURED, BINARY, *words]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, check=True)
    code, peak = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return int(peak)


def test_memory_is_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        data = file.create_dataset("x", (20_000, 1000), "f4", chunks=(500, 100), compression="gzip", compression_opts=1)
        for i in range(0, 20_000, 2000):
            data[i : i + 2000] = rng.integers(0, 9, (2000, 1000))
    with h5py.File(tmp_path / "s.h5") as file:
        want = file["x"][()].tobytes()
    for budget, destination in [("12MB", "a.npy"), ("30MB", "b.zarr"), (None, "c.npy")]:
        words = ["convert", tmp_path / "s.h5", tmp_path / destination, "--threads", "2", "--json"]
        words += ["--memory-budget", budget] if budget else []
        limit = int(budget[:-2]) * 1_000_000 if budget else 280_000_000
        assert peak_memory(*words) < limit + 40_000_000, budget
        assert whole(tmp_path / destination).tobytes() == want
    error = failing(4, "convert", tmp_path / "s.h5", tmp_path / "x.npy", "--memory-budget", "1MB", "--json").error
    assert "above the budget of 1000000" in error["message"] and error["expected"] == "at most 1000000 bytes"
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize(("format", "shards"), [("npy", 6), ("hdf5", 1), ("zarr", 3), ("parquet", 2)])
def test_a_killed_run_leaves_no_half_data_set(format: str, shards: int, tmp_path: Path) -> None:
    good("write", tmp_path / "src", "--shape", "4000,1000", "--shards", 3, "--uneven")
    out = tmp_path / ("one.h5" if shards == 1 else "out")
    words = ["convert", tmp_path / "src", out, "--format", format, *([] if shards == 1 else ["--shards", shards])]
    began = time.monotonic()
    good(*words)
    took = time.monotonic() - began
    want = whole(tmp_path / "src").tobytes()
    assert whole(out).tobytes() == want
    good("convert", tmp_path / "src", out, *words[3:], "--replace")
    random_moment = random.Random(7)
    killed = 0
    for replace in (False, True) * 4:
        if not replace:
            subprocess.run(["rm", "-r", out], check=True)
        process = subprocess.Popen(
            [str(w) for w in [BINARY, *words, *(["--replace"] if replace else [])]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(random_moment.uniform(0, took))
        process.kill()
        killed += process.wait() != 0
        if replace or out.exists():
            assert whole(out).tobytes() == want, "whole, new or old"
        else:
            good(*words)
    assert killed > 0
    good(*words, "--replace")  # takes away what the killed ones have left
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["src", out.name])


# covers: loading E10
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    good("write", tmp_path / "src", "--shape", "20000,1000", "--shards", 3)
    interrupted = 0
    for delay in (0.03, 0.1, 0.2):
        words = [BINARY, "convert", tmp_path / "src", tmp_path / "out.h5", "--compress", "deflate", "--verify"]
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        interrupted += process.wait(timeout=20) == 130
        assert [p.name for p in tmp_path.iterdir()] == ["src"]
    assert interrupted > 0


def test_progress_and_json(uneven: tuple[Path, Array], tmp_path: Path) -> None:
    seen: list[Any] = []
    ls.convert(uneven[0], tmp_path / "x.npz", verify=True, progress=lambda p: seen.append((p.stage, p.done_bytes)))
    assert ("convert", uneven[1].nbytes) in seen and ("verify", uneven[1].nbytes) in seen
    body = good("convert", uneven[0], tmp_path / "y", "--format", "hdf5", "--shards", 2, "--verify", "--json").json
    assert body["format"] == "hdf5" and body["verified"] is True and len(body["files"]) == 2
    (array,) = body["arrays"]
    assert (array["name"], array["shape"], array["rows"]) == ("p", [93, 3, 4], [47, 46])
    assert array["digest"] == ls.digest(ls.open(uneven[0])).arrays[0].digest
    for words, message in [
        ([], "expected SRC and DST"),
        ([uneven[0]], "expected SRC and DST, found only"),
        ([uneven[0], "."], "no name of its own"),
        ([uneven[0], "x", "--format", "hdf"], "did you mean 'hdf5'"),
        ([uneven[0], "x", "--shard-bytes", "x"], "--shard-bytes"),
    ]:
        assert message in failing(2, "convert", *words, "--json", cwd=tmp_path).error["message"]
