"""The command line as a program meets it: exit codes, JSON, options, files left behind, signals."""

import fcntl
import hashlib
import json
import os
import pty
import re
import resource
import select
import signal
import stat
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from loadstone_cli import BINARY, failing, files_in, good, loadstone

VERBS = ["inspect", "plan", "load", "verify", "digest", "write", "bench", "doctor", "completion"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1000 x 16 float32 in 5 uneven files, never changed by a test."""
    folder = tmp_path_factory.mktemp("data") / "shards"
    good("write", folder, "--shape", "1000,16", "--dtype", "float32", "--shards", 5, "--uneven", "--seed", 3)
    return folder


@pytest.fixture(scope="module")
def manifest(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manifest") / "M.json"
    good("digest", data, "--output", path)
    return path


def sparse_npy(path: Path, rows: int, columns: int = 1024) -> None:
    """Zeros that take no space on the disk."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.truncate(file.tell() + rows * columns * 4)


# ---- help, version, unknown words


def test_version() -> None:
    assert good("--version").out == b"loadstone 0.1.0\n"


@pytest.mark.parametrize("verb", VERBS)
# covers: loading E16
def test_help_of_each_verb_has_examples_and_the_json_option(verb: str) -> None:
    text = good(verb, "--help").out.decode()
    assert f"loadstone {verb}" in text.split("Examples:")[1]
    assert "--json" in text
    assert verb in good("--help").out.decode()


@pytest.mark.parametrize(
    "args, wanted",
    [
        (["load", "--mehs", "x=2", "."], "--mesh"),
        (["load", "--strategi=auto", "."], "--strategy"),
        (["load", "--dump-eahc", "x", "."], "--dump-each"),
        (["inspect", "--expect-file", "3", "."], "--expect-files"),
        (["inspect", "--mesh", "x=2", "."], "load"),  # known elsewhere
        (["write", "d", "--shap", "3"], "--shape"),
        (["lode", "."], "load"),
        (["--versoin"], "--version"),
    ],
)
# covers: loading E17
def test_an_unknown_word_is_a_usage_error_with_the_nearest_known_one(args: list[str], wanted: str, tmp_path: Path) -> None:
    for more in ([], ["--json"]):
        result = failing(2, *args, *more, cwd=tmp_path)
        assert wanted in result.err
        assert next(a for a in args if a.startswith("-") or a == "lode").split("=")[0] in result.err
    assert result.error["kind"] == "usage"


@pytest.mark.parametrize("args", [[], ["load"], ["write"], ["completion"], ["load", "-x", "."], ["inspect", ""]])
# covers: loading E15
def test_a_command_line_that_says_too_little_is_a_usage_error(args: list[str]) -> None:
    failing(2, *args)
    assert failing(2, *args, "--json").error["kind"] == "usage"


@pytest.mark.parametrize(
    "option, bad",
    [
        ("--threads", "0"),
        ("--threads", "many"),
        ("--threads", "99999999"),
        ("--memory-budget", "1.5XB"),
        ("--window", "0"),
        ("--window", "-1"),
        ("--expect-rows", "-1"),
        ("--expect-files", "2.5"),
        ("--over-decompose", "x"),
        ("--offset", " 1"),
        ("--uneven", "maybe"),
        ("--order", "c"),
        ("--format", "nyp"),
        ("--verify=most", None),
        ("--dtype", ""),
        ("--dump", ""),
        ("--trace", ""),
        ("--array", ""),
        ("--files-from", ""),
    ],
)
# covers: loading E15
def test_a_bad_value_is_a_usage_error_that_names_the_option_and_the_value(option: str, bad: str | None, data: Path) -> None:
    args = [option] if bad is None else [option, bad]
    paths = [] if option == "--files-from" else [data]
    message = failing(2, "load", *paths, *args, "--json").error["message"]
    assert ("most" if bad is None else bad or "''") in message
    if option not in {"--dump", "--trace", "--format"}:
        assert option.split("=")[0] in message


@pytest.mark.parametrize(
    "option, value, formats",
    [("--strict", None, "zarr"), ("--fill", "0", "parquet"), ("--columns", "a,b", "parquet")],
)
def test_options_of_other_formats_are_refused_with_the_formats_they_are_for(
    option: str, value: str | None, formats: str, data: Path
) -> None:
    message = failing(2, "load", data, option, *([value] if value else []), "--json").error["message"]
    assert option in message and formats in message and "npy" in message


@pytest.mark.parametrize("spec", [["--spec", "-,y"], ["--spec=-,y"], ["--spec", "-"], ["--spec=-"], ["--spec", ""], ["--spec="]])
def test_a_spec_may_begin_with_a_dash_or_be_empty(spec: list[str], data: Path) -> None:
    body = good("load", data, "--mesh", "y=2", *spec, "--json").json
    columns = [shard["index"][1] for shard in body["shards"]]
    assert columns == ([[0, 8], [8, 16]] if "y" in spec[-1].replace("--spec", "") else [[0, 16], [0, 16]])


def test_a_path_may_look_like_an_option_a_verb_or_a_list(tmp_path: Path, data: Path) -> None:
    for name in ("-x.npy", "load", "[a,b]", "--json"):
        (tmp_path / name).write_bytes((data / "shard_0000.npy").read_bytes())
    for args in (["--", "-x.npy"], ["load"], ["[a,b]"], ["--", "--json"], ["./--json"]):
        good("inspect", *args, cwd=tmp_path)
    failing(2, "load", "-x.npy", cwd=tmp_path)


# ---- exit codes and JSON


def check_types(value: Any) -> None:
    """No floats where bytes are counted."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key.endswith("bytes") or key in {"shape", "rows", "index", "total_rows"}:
                for number in [item] if not isinstance(item, list) else item:
                    assert isinstance(number, (int, list, type(None))), (key, item)
            check_types(item)
    elif isinstance(value, list):
        for item in value:
            check_types(item)


# covers: loading E16
# covers: loading D9
def test_inspect_json(data: Path) -> None:
    body = good("inspect", data, "--json").json
    assert list(body)[:3] == ["schema", "verb", "ok"]
    assert (body["verb"], body["ok"], body["format"]) == ("inspect", True, "npy")
    (array,) = body["arrays"]
    assert array["name"] == "shard"
    assert (array["shape"], array["dtype"], array["bytes"]) == ([1000, 16], "float32", 64000)
    assert array["files"] == [str(data / f"shard_000{i}.npy") for i in range(5)]
    assert sum(array["rows"]) == array["total_rows"] == 1000
    assert (array["rows_more"], array["file_count"], array["trailing_shape"]) == (0, 5, [16])
    assert (array["order"], array["byte_order"]) == ("C", "little")
    assert body["completeness"] == "not checked"
    assert good("inspect", data, "--expect-files", 5, "--json").json["completeness"] == "checked"
    assert body["io"]["opens"] == 5
    check_types(body)


# covers: loading D9
# covers: loading D15
def test_inspect_text(data: Path) -> None:
    text = good("inspect", data).out.decode()
    for words in ("npy", "5", "1000", "16", "float32", "completeness not checked"):
        assert words in text


# covers: loading E16
def test_plan_json_and_text(data: Path, tmp_path: Path) -> None:
    args = ["plan", data, "--mesh", "x=2,y=4", "--spec", "x,y"]
    body = good(*args, "--explain", "--json", "--svg", tmp_path / "p.svg").json
    assert body["ok"] is True and body["verb"] == "plan"
    assert body["plan"]["totals"]["bytes_needed"] == 64000
    assert len(body["plan"]["slots"]) == 8
    assert body["explain"] and body["svg"] == str(tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text()
    check_types(body)
    text = good(*args).out.decode()
    assert "0" in text and "7" in text and "shards" in text
    assert "per_device" in good(*args, "--explain").out.decode()


# covers: loading E16
# covers: loading E19
def test_load_json(data: Path) -> None:
    body = good("load", data, "--mesh", "x=2,y=2", "--spec", "x", "--devices", "3,2,1,0", "--verify", "--json").json
    assert [shard["device"] for shard in body["shards"]] == [3, 2, 1, 0]
    assert [shard["index"] for shard in body["shards"]] == [[[0, 500], [0, 16]]] * 2 + [[[500, 1000], [0, 16]]] * 2
    assert [shard["replica_id"] for shard in body["shards"]] == [0, 1, 0, 1]
    assert all(shard["bytes"] == 32000 and shard["shape"] == [500, 16] for shard in body["shards"])
    assert body["stats"]["bytes_read"] == 64000
    assert body["verdict"]["ok"] is True
    assert body["outputs"] == []
    check_types(body)


# covers: loading E19
def test_verify_levels_of_load(data: Path, manifest: Path) -> None:
    def ran(*args: Any) -> list[bool]:
        levels = good("load", data, "--mesh", "x=2", "--spec", "", *args, "--json").json["verdict"]["levels"]
        return [level["ran"] for level in levels]

    with_manifest = ["--manifest", manifest]
    assert ran("--verify", *with_manifest) == ran(*with_manifest) == [True, True, True, True]
    assert ran("--verify=source", *with_manifest) == [True, True, False, True]
    # Without a manifest there is nothing to compare the bytes as read with.
    assert ran("--verify") == ran("--verify=full") == [True, False, True, True]
    assert ran("--verify=source") == [True, False, False, True]
    assert "verdict" not in good("load", data, "--json").json


# covers: loading E15
# covers: loading E16
def test_verify_with_and_without_a_manifest(data: Path, manifest: Path, tmp_path: Path) -> None:
    body = good("verify", data, "--manifest", manifest, "--mesh", "x=4", "--spec", "x", "--json").json
    assert body["verdict"]["ok"] is True and len(body["verdict"]["levels"]) == 4
    assert good("verify", data, "--json").json["verdict"]["ok"] is True
    assert "L2" in good("verify", data, "--manifest", manifest).out.decode()
    # The array decides, not its files: another tiling of the same values passes.
    good("write", tmp_path / "other", "--shape", "1000,16", "--shards", 2, "--seed", 3)
    good("verify", tmp_path / "other", "--manifest", manifest)
    assert good("load", tmp_path / "other", "--manifest", manifest, "--json").json["verdict"]["ok"] is True


# covers: loading E15
# covers: faults F9
def test_a_flipped_bit_is_exit_1_with_device_and_box(data: Path, manifest: Path, tmp_path: Path) -> None:
    for file in data.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    victim = tmp_path / "shard_0002.npy"
    content = bytearray(victim.read_bytes())
    content[200] ^= 1  # in the file's second row, 276 rows into the array
    victim.write_bytes(content)
    before = files_in(tmp_path)
    for verb in ("verify", "load"):
        outputs = ["--dump", tmp_path / "out.bin", "--trace", tmp_path / "t.json"] if verb == "load" else []
        args = [verb, tmp_path, "--manifest", manifest, "--mesh", "x=4", "--spec", "x", *outputs]
        body = failing(1, *args, "--json").json
        assert body["ok"] is False and body["verdict"]["ok"] is False
        assert body["error"]["kind"] == "verification"
        accused = body["verdict"]["accusations"]
        assert len(accused) == 1 and accused[0]["level"] == "L1"
        assert accused[0]["files"] == [str(victim)]
        assert accused[0]["devices"] == [{"id": 1, "place": "cpu:1", "process": 0}]
        result = failing(1, *args)
        for text in (result.out.decode(), result.err.splitlines()[-1], body["error"]["message"]):
            assert "cpu:1" in text and "shard_0002.npy" in text and "277:278" in text
        assert files_in(tmp_path) == before, "a failed verification left a file"


# covers: loading E7
def test_two_damaged_files_of_five_are_both_named(data: Path, manifest: Path, tmp_path: Path) -> None:
    for file in data.iterdir():
        content = bytearray(file.read_bytes())
        if file.name in {"shard_0001.npy", "shard_0004.npy"}:
            content[-1] ^= 0x80
        (tmp_path / file.name).write_bytes(content)
    text = failing(1, "verify", tmp_path, "--manifest", manifest).out.decode()
    assert "shard_0001.npy" in text and "shard_0004.npy" in text and "shard_0000.npy" not in text


# covers: faults F13
# covers: loading E15
def test_a_manifest_of_another_shape_or_dtype_is_a_failed_verification(data: Path, manifest: Path, tmp_path: Path) -> None:
    good("write", tmp_path / "rows", "--shape", "999,16", "--shards", 2, "--seed", 3)
    good("write", tmp_path / "type", "--shape", "1000,16", "--dtype", "int32", "--shards", 2, "--seed", 3)
    for name, words in (("rows", "999"), ("type", "int32")):
        result = failing(1, "verify", tmp_path / name, "--manifest", manifest)
        assert words in result.out.decode()


@pytest.mark.parametrize(
    "content, words",
    [("", "manifest"), ("{", "manifest"), ("[]", "manifest"), ('{"schema": 99}', "schema"), ('{"schema": 1}', "manifest")],
)
# covers: loading D10
def test_a_malformed_manifest_is_a_data_error_that_names_it(content: str, words: str, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    error = failing(3, "verify", data, "--manifest", path, "--json").error
    assert "bad.json" in error["message"] and error["file"] == str(path)
    failing(4, "verify", data, "--manifest", tmp_path / "absent.json", "--json")


# covers: loading D10
# covers: loading E16
def test_digest(data: Path, tmp_path: Path) -> None:
    whole = good("digest", data)
    assert json.loads(whole.out)["arrays"][0]["shape"] == [1000, 16]
    assert good("digest", data, "--threads", 3).out == whole.out, "two runs print the same"
    body = good("digest", data, "--output", tmp_path / "M.json", "--json").json
    assert (tmp_path / "M.json").read_bytes() == whole.out
    assert body["output"] == str(tmp_path / "M.json")
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{16}", body["arrays"][0]["digest"])
    assert good("digest", data, "--json").json["manifest"] == json.loads(whole.out)
    assert good("digest", data, "--output", "/dev/stdout").out.startswith(whole.out)


# covers: loading E18
# covers: loading E16
def test_write(tmp_path: Path) -> None:
    args = ["write", tmp_path / "d", "--shape", "100,4", "--dtype", "int16", "--shards", 4, "--seed", 1]
    body = good(*args, "--json").json
    assert (body["shape"], body["dtype"], body["bytes"], len(body["files"])) == ([100, 4], "int16", 800, 4)
    assert sum(body["rows"]) == 100
    error = failing(2, *args, "--json").error
    assert "--replace" in error["message"]
    (tmp_path / "d" / "mine.txt").write_text("keep me")
    assert "mine.txt" in failing(2, *args, "--replace", "--json").error["message"]
    assert (tmp_path / "d" / "mine.txt").exists() and len(files_in(tmp_path / "d")) == 6, "nothing was removed"
    (tmp_path / "d" / "mine.txt").unlink()
    assert len(set(good(*args, "--uneven", "--replace", "--json").json["rows"])) > 1
    for bad in (["--shards", "0"], ["--shape", "x"], ["--dtype", "datetime64"], ["--seed", "-1"], ["--format", "hdf5"]):
        failing(2, "write", tmp_path / "e", "--shape", "4", *bad, "--json")
    assert not (tmp_path / "e").exists()
    failing(2, "write", tmp_path / "e", "--json")
    # Any tiling holds the same values.
    good("write", tmp_path / "r", "--shape", "100,4", "--dtype", "int16", "--shards", 7, "--seed", 1, "--format", "raw")
    good("load", tmp_path / "r", "--raw", "--dump", tmp_path / "r.bin")
    good("load", tmp_path / "d", "--dump", tmp_path / "d.bin")
    assert (tmp_path / "d.bin").read_bytes() == (tmp_path / "r.bin").read_bytes()


# covers: loading E16
def test_doctor() -> None:
    body = good("doctor", "--json").json
    names = {check["name"]: check for check in body["checks"]}
    assert names["format npy"]["ok"] and names["format raw"]["ok"] and names["executor threads"]["ok"]
    assert body["cores"] >= 1 and body["memory_bytes"] > 0
    for check in names.values():
        assert check["detail"], f"{check['name']} gives no reason"
    lines = good("doctor").out.decode().splitlines()
    assert all(re.match(r"(ok|absent) +\S", line) for line in lines)


# covers: loading E16
def test_bench(data: Path) -> None:
    body = good("bench", data, "--rounds", 2, "--json").json
    assert len(body["results"]) == 4
    assert all(result["bytes_per_second"] > 0 and len(result["seconds"]) == 2 for result in body["results"])
    assert "of ceiling" in good("bench", data, "--rounds", 1).out.decode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = good("completion", shell).out.decode()
    for word in ("inspect", "load", "dump-each", "memory-budget"):
        assert word in script
    assert good("completion", shell, "--json").json["script"] == script
    if shell == "bash":
        probe = f"{script}\nCOMP_WORDS=(loadstone load --dump-e); COMP_CWORD=2; _loadstone; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", probe], capture_output=True, check=True)
        assert done.stdout == b"--dump-each\n"


# covers: loading E6
# covers: loading E15
def test_each_kind_of_failure_in_json(data: Path, tmp_path: Path) -> None:
    (tmp_path / "short.npy").write_bytes((data / "shard_0000.npy").read_bytes()[:-3])
    data_error = failing(3, "inspect", tmp_path / "short.npy", "--json").error
    assert data_error["kind"] == "data"
    assert data_error["file"].endswith("short.npy") and data_error["expected"] and data_error["found"]
    system_error = failing(4, "inspect", tmp_path / "absent.npy", "--json").error
    assert system_error["kind"] == "system" and "absent.npy" in system_error["file"] and system_error["errno"] == 2
    assert failing(2, "load", data, "--mesh", "x=3", "--spec", "x", "--json").error["kind"] == "usage"
    for verb in ("inspect", "plan", "load", "verify", "digest", "bench"):
        assert failing(4, verb, tmp_path / "absent.npy", "--json").json["verb"] == verb


# covers: loading E13
def test_a_plan_beyond_the_memory_budget_is_refused_with_both_numbers(data: Path, tmp_path: Path) -> None:
    error = failing(
        4, "load", data, "--memory-budget", "1kB", "--dump", tmp_path / "o.bin", "--json", cwd=tmp_path
    ).error
    numbers = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", error["message"])]
    assert 1000 in numbers and any(n >= 64000 for n in numbers), error["message"]
    assert files_in(tmp_path) == []
    for size in ("1GB", "100MiB", "200000000"):
        good("load", data, "--memory-budget", size)


# covers: loading D15
def test_expected_files_and_rows(data: Path) -> None:
    good("load", data, "--expect-files", 5, "--expect-rows", 1000)
    for option, number, found in (("--expect-files", 6, "5"), ("--expect-rows", 1001, "1000")):
        result = failing(3, "load", data, option, number, "--json")
        assert str(number) in result.error["message"] and found in result.error["message"]


# covers: loading D10
def test_files_from(data: Path, tmp_path: Path) -> None:
    lines = [os.path.relpath(data / f"shard_000{i}.npy", tmp_path) for i in range(5)]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    body = good("inspect", "--files-from", tmp_path / "list.txt", "--json").json
    assert body["arrays"][0]["shape"] == [1000, 16]
    failing(2, "inspect", data, "--files-from", tmp_path / "list.txt")


def test_spec_file(data: Path, tmp_path: Path) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text('{"other*": "y", "sh*": "-,x", "*": ""}')
    body = good("load", data, "--mesh", "x=2", "--spec-file", specs, "--json").json
    assert [shard["index"][1] for shard in body["shards"]] == [[0, 8], [8, 16]]
    for content, code in (('{"other": "x"}', 2), ("[1]", 3), ("{", 3), ('{"*": 3}', 3), ('{"*": "q"}', 2)):
        specs.write_text(content)
        failing(code, "load", data, "--mesh", "x=2", "--spec-file", specs, "--json")
    failing(4, "load", data, "--mesh", "x=2", "--spec-file", tmp_path / "absent", "--json")
    failing(2, "load", data, "--mesh", "x=2", "--spec-file", specs, "--spec", "x", "--json")


# ---- what a load leaves behind


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
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True, check=False)
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


# ---- signals, terminals, time


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
# covers: loading E10
def test_an_interrupt_is_exit_130_within_a_second_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for i in range(4):
        sparse_npy(tmp_path / "d" / f"s{i}.npy", rows=100_000)  # 1.6 GB in all
    (tmp_path / "out").mkdir()
    interrupted = 0
    for delay in (0.02, 0.05, 0.1, 0.2, 0.35, 0.5):
        args = ["load", tmp_path / "d", "--mesh", "x=4", "--spec", "-,x", "--verify", "--dump", tmp_path / "out" / "o.bin"]
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
            assert took < 1.0, f"took {took:.2f} s after {delay} s"
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
        assert time.monotonic() - sent < 1.0
        assert files_in(tmp_path / "out") == []


def in_terminal(*args: Any) -> tuple[int, bytes, bytes]:
    """Exit code, stdout, and what a terminal on stderr was sent."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen([BINARY, *args], stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"})
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
    assert re.search(rb"\rdigest|digest +[\d.]+ [kMG]?B of 2\.8\d GB +\d+ %  [\d.]+ [kMG]?B/s", seen.replace(b"\x1b[K", b""))
    last = seen.rsplit(b"\r\x1b[K", 1)[1]
    assert b"digest" not in last, "the line is cleared at the end"
    assert b"\r" not in loadstone("digest", tmp_path / "d", "--output", "/dev/null").err.encode()


def test_start_up_is_fast(data: Path) -> None:
    best = min(timed_inspect(data) for _ in range(10))
    assert best < 0.1, f"inspect of 5 files took {best:.3f} s"


def timed_inspect(data: Path) -> float:
    start = time.monotonic()
    good("inspect", data, "--json")
    return time.monotonic() - start


# covers: loading E9
# covers: loading R13
def test_a_file_that_grows_during_the_load_is_never_loaded_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for _ in range(5):
        path.write_bytes(bytes(8 << 20))
        writer = subprocess.Popen(
            ["bash", "-c", f"for i in $(seq 200); do head -c 4096 /dev/zero >> {path}; done"], stdout=subprocess.DEVNULL
        )
        result = loadstone("load", path, "--raw", "--dtype", "u1", "--row-shape", "4096", "--dump", tmp_path / "o", "--json")
        writer.wait()
        if result.code == 0:
            assert (tmp_path / "o").stat().st_size == result.json["arrays"][0]["bytes"]
            (tmp_path / "o").unlink()
        else:
            assert result.code == 3 and "a.bin" in result.error["message"]
            assert not (tmp_path / "o").exists()
