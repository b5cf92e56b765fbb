"""Interrupts, terminals, start-up, files that change."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from loadstone_cli import BINARY, files_in, good, loadstone, sparse_npy

SOON = 2.0  # seconds: one is promised, the rest is a busy machine's


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
# covers: loading E10
def test_an_interrupt_is_exit_130_within_a_second_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for i in range(4):
        sparse_npy(tmp_path / "d" / f"s{i}.npy", rows=100_000)  # 1.6 GB in all
    (tmp_path / "out").mkdir()
    interrupted = 0
    for delay in (0.02, 0.05, 0.1, 0.2, 0.35, 0.5):
        args = [
            "load",
            tmp_path / "d",
            "--mesh",
            "x=4",
            "--spec",
            "-,x",
            "--verify",
            "--dump",
            tmp_path / "out" / "o.bin",
        ]
        process = subprocess.Popen([BINARY, *args, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(number)
        sent = time.monotonic()
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - sent
        if process.returncode == 0:
            (tmp_path / "out" / "o.bin").unlink()
            continue
        assert process.returncode in (130, -number), err  # killed before main() had its handlers
        if process.returncode == 130:
            interrupted += 1
            assert took < SOON, f"took {took:.2f} s after {delay} s"
            body = json.loads(out)
            assert body["ok"] is False and body["error"]["kind"] == "interrupted"
            assert b"interrupted" in err
        assert files_in(tmp_path / "out") == []
    assert interrupted > 0


# covers: loading E10
def test_interrupting_digest_and_write(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    sparse_npy(tmp_path / "d" / "s0.npy", rows=600_000)  # 2.4 GB
    (tmp_path / "out").mkdir()
    for args in (
        ["digest", tmp_path / "d", "--output", tmp_path / "out" / "M.json"],
        ["write", tmp_path / "out" / "w", "--shape", "300000,1024", "--shards", "3"],
    ):
        process = subprocess.Popen([BINARY, *args], stderr=subprocess.PIPE)
        time.sleep(0.15)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, (args, err)
        assert time.monotonic() - sent < SOON
        assert files_in(tmp_path / "out") == []


# covers: loading E10
def test_a_dump_into_a_pipe_can_be_read_and_can_be_interrupted(data: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([BINARY, "load", data, "--dump", pipe], stderr=subprocess.PIPE) as process:
        assert len(pipe.read_bytes()) == 64000
        process.communicate(timeout=30)
        assert process.returncode == 0
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # never reads: the pipe fills up at 64 KiB
    sparse_npy(tmp_path / "s0.npy", rows=100)
    for open_reader in (True, False):
        if not open_reader:
            os.close(reader)
        with subprocess.Popen([BINARY, "load", tmp_path / "s0.npy", "--dump", pipe], stderr=subprocess.PIPE) as process:
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            sent = time.monotonic()
            process.communicate(timeout=30)
            assert process.returncode == 130 and time.monotonic() - sent < SOON
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def in_terminal(*args: Any) -> tuple[int, bytes, bytes]:
    """Exit code, stdout, and what a terminal on stderr was sent."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [BINARY, *args], stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    seen = b""
    while select.select([master], [], [], 30)[0]:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    out, _ = process.communicate(timeout=30)
    return process.returncode, out, seen


# covers: loading E14
def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    sparse_npy(tmp_path / "d" / "s0.npy", rows=700_000)  # 2.9 GB
    code, out, seen = in_terminal("digest", tmp_path / "d")
    assert code == 0 and json.loads(out)
    assert re.search(
        rb"\rdigest|digest +[\d.]+ [kMG]?B of 2\.8\d GB +\d+ %  [\d.]+ [kMG]?B/s", seen.replace(b"\x1b[K", b"")
    )
    last = seen.rsplit(b"\r\x1b[K", 1)[1]
    assert b"digest" not in last, "the line is cleared at the end"
    assert b"\r" not in loadstone("digest", tmp_path / "d", "--output", "/dev/null").err.encode()


# covers: loading E9
# covers: loading R13
def test_a_file_that_grows_during_the_load_is_never_loaded_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for _ in range(5):
        path.write_bytes(bytes(8 << 20))
        writer = subprocess.Popen(
            ["bash", "-c", f"for i in $(seq 200); do head -c 4096 /dev/zero >> {path}; done"], stdout=subprocess.DEVNULL
        )
        result = loadstone(
            "load", path, "--raw", "--dtype", "u1", "--row-shape", "4096", "--dump", tmp_path / "o", "--json"
        )
        writer.wait()
        if result.code == 0:
            assert (tmp_path / "o").stat().st_size == result.json["arrays"][0]["bytes"]
            (tmp_path / "o").unlink()
        else:
            assert result.code == 3 and "a.bin" in result.error["message"]
            assert not (tmp_path / "o").exists()
