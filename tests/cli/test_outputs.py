"""What a verb leaves behind: whole files or none."""

import hashlib
import json
import os
import resource
import stat
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from loadstone_cli import BINARY, failing, files_in, good


def test_dump_each_needs_the_device_in_the_name(data: Path, tmp_path: Path) -> None:
    mesh = ["--mesh", "x=2", "--spec", "x"]
    message = failing(2, "load", tmp_path / "absent", *mesh, "--dump-each", "out.bin", "--json").error["message"]
    assert "{device}" in message, "seen before any file is touched"
    failing(2, "load", data, *mesh, "--dump", "out.{device}.bin", cwd=tmp_path)
    assert files_in(tmp_path) == []
    good("load", data, "--dump-each", "one.bin", cwd=tmp_path)
    assert len((tmp_path / "one.bin").read_bytes()) == 64000


def test_dump_replaces_a_file_keeps_links_and_its_mode(data: Path, tmp_path: Path) -> None:
    good("load", data, "--dump", tmp_path / "first.bin")
    want = (tmp_path / "first.bin").read_bytes()
    old = tmp_path / "old.bin"
    old.write_bytes(b"old")
    old.chmod(0o600)
    (tmp_path / "link.bin").symlink_to("old.bin")
    good("load", data, "--dump", tmp_path / "link.bin")
    assert (tmp_path / "link.bin").is_symlink() and old.read_bytes() == want
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    good("load", data, "--dump", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode), "a device is written, not replaced"


def test_dump_of_many_shapes_of_windows(tmp_path: Path) -> None:
    # 9 MB in windows of 4 MiB, from shards that cut the inner dimension.
    good("write", tmp_path / "d", "--shape", "3,500,1500", "--dtype", "float32", "--shards", 2, "--seed", 4)
    good("load", tmp_path / "d", "--dump", tmp_path / "whole.bin")
    want = hashlib.sha256((tmp_path / "whole.bin").read_bytes()).digest()
    for mesh, spec in (("x=4", "-,-,x"), ("x=2,y=5", "-,y,x"), ("x=3", "x"), ("x=2,y=2", "-,x+y")):
        good("load", tmp_path / "d", "--mesh", mesh, "--spec", spec, "--dump", tmp_path / "part.bin")
        assert hashlib.sha256((tmp_path / "part.bin").read_bytes()).digest() == want


def test_an_output_never_replaces_an_input(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a.npy"
    copy.write_bytes((data / "shard_0000.npy").read_bytes())
    (tmp_path / "same.bin").symlink_to("a.npy")
    before = copy.read_bytes()
    for name in ("a.npy", "./a.npy", "same.bin"):
        assert "a.npy" in failing(2, "load", "a.npy", "--dump", name, "--json", cwd=tmp_path).error["message"]
    assert copy.read_bytes() == before


@pytest.mark.parametrize("where", ["absent/out.bin", ".", "file/out.bin"])
# covers: loading E6
def test_a_place_that_cannot_be_written_is_a_system_error_that_names_it(where: str, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for verb, option in (("load", "--dump"), ("load", "--trace"), ("digest", "--output"), ("plan", "--svg")):
        error = failing(4, verb, data, option, where, "--json", cwd=tmp_path).error
        assert where in error["message"] and error["file"] == where and error["errno"] > 0
    assert files_in(tmp_path) == ["file"]


def test_dump_each_writes_all_files_or_none(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out.2.bin").mkdir()
    failing(4, "load", data, "--mesh", "x=4", "--spec", "x", "--dump-each", "out.{device}.bin", cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["out.2.bin"]


# covers: loading D19
def test_many_files_and_many_outputs_under_few_descriptors(tmp_path: Path) -> None:
    good("write", tmp_path / "d", "--shape", "800,2", "--shards", 200)
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    good("load", tmp_path / "d", "--mesh", "x=100", "--spec", "x", "--verify", "--dump", tmp_path / "w", "--dump-each",
         tmp_path / "out.{device}", preexec_fn=few)  # fmt: skip
    parts = b"".join((tmp_path / f"out.{i}").read_bytes() for i in range(100))
    assert parts == (tmp_path / "w").read_bytes() and len(parts) == 6400


def test_trace_is_a_chrome_trace(data: Path, tmp_path: Path) -> None:
    good("load", data, "--verify", "--trace", tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    complete = [event for event in events if event.get("ph") == "X"]
    assert complete and all(isinstance(event["ts"], (int, float)) and event["dur"] >= 0 for event in complete)
    assert {"plan", "verify"} <= {event["cat"] for event in complete}


# covers: loading D20
def test_names_that_are_not_utf8(data: Path, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/a\xff\n\x1b[31m.npy"
    with open(name, "wb") as file:
        file.write((data / "shard_0000.npy").read_bytes())
    files = good("inspect", name, "--json").json["arrays"][0]["files"]
    assert "\\xff" in files[0]
    assert b"\x1b" not in good("load", name, "--dump", os.fsencode(tmp_path) + b"/o\xfe.bin").out
    with open(name, "ab") as file:
        file.write(b"!")
    result = failing(3, "load", name, "--json")
    assert "\\xff" in result.error["message"] and "\x1b" not in result.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """64 KiB of tmpfs."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


# covers: loading E6
# covers: loading E18
def test_a_full_disk_is_a_system_error_and_leaves_nothing(small_disk: Path, tmp_path: Path) -> None:
    good("write", tmp_path / "d", "--shape", "40000,4", "--shards", 3)
    for args in (
        ["load", tmp_path / "d", "--dump", small_disk / "o.bin"],
        ["load", tmp_path / "d", "--mesh", "x=20", "--spec", "x", "--dump-each", small_disk / "o{device}.bin"],
        ["load", tmp_path / "d", "--mesh", "x=64", "--spec", "-", "--window", "1kB", "--trace", small_disk / "t.json"],
        ["write", small_disk / "w", "--shape", "40000,4", "--shards", 3],
    ):
        error = failing(4, *args, "--json").error
        assert "No space left" in error["message"] and error["errno"] == 28, error
        assert files_in(small_disk) == [], args
    (small_disk / "filler").write_bytes(b"x" * 65536)
    failing(4, "digest", tmp_path / "d", "--output", small_disk / "M.json")
    assert files_in(small_disk) == ["filler"]


# covers: loading E6
def test_a_limit_on_file_sizes_is_an_error_not_a_signal(data: Path, tmp_path: Path) -> None:
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    failing(4, "load", data, "--dump", tmp_path / "o.bin", preexec_fn=small)
    assert files_in(tmp_path) == []


def test_stdout_that_is_full_or_gone(data: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BINARY, "inspect", data, "--json"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4 and b"No space left" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BINARY, "inspect", data], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (4, b""), "a reader that has gone ends it quietly, without a signal"
