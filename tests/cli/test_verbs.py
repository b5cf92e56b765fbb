"""Each verb as a program meets it: exit codes and the JSON object."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loadstone_cli import failing, files_in, good


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
def test_a_manifest_of_another_shape_or_dtype_is_a_failed_verification(
    data: Path, manifest: Path, tmp_path: Path
) -> None:
    good("write", tmp_path / "rows", "--shape", "999,16", "--shards", 2, "--seed", 3)
    good("write", tmp_path / "type", "--shape", "1000,16", "--dtype", "int32", "--shards", 2, "--seed", 3)
    for name, words in (("rows", "999"), ("type", "int32")):
        result = failing(1, "verify", tmp_path / name, "--manifest", manifest)
        assert words in result.out.decode()


@pytest.mark.parametrize(
    "content, words",
    [
        ("", "manifest"),
        ("{", "manifest"),
        ("[]", "manifest"),
        ('{"schema": 99}', "schema"),
        ('{"schema": 1}', "manifest"),
    ],
)
# covers: loading D10
def test_a_malformed_manifest_is_a_data_error_that_names_it(
    content: str, words: str, data: Path, tmp_path: Path
) -> None:
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
    for bad in (["--shards", "0"], ["--shape", "x"], ["--dtype", "datetime64"], ["--seed", "-1"], ["--format", "hdf6"]):
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
