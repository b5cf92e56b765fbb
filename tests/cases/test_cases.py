"""Every case of inputs.tar.gz: awkward files from public bug reports, each with the value or the error that is right."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest
from loadstone_cli import BINARY, Result, environment, files_in

ARCHIVE = Path(__file__).with_name("inputs.tar.gz")
TIME_LIMIT = 20
# Options that say where the data goes, not what it is: taken out for `inspect`.
WITH_VALUE = {"--dump", "--dump-each", "--mesh", "--spec", "--devices", "--uneven", "--strategy", "--over-decompose"}
WITHOUT_VALUE = {"--verify", "--explain"}
OTHER_USER = "as a user other than root: "


def case_ids() -> list[str]:
    with tarfile.open(ARCHIVE) as archive:
        names = {name.split("/")[0] for name in archive.getnames() if name.count("/") >= 1}
    return sorted(names)


@pytest.fixture(scope="session")
def world() -> Iterator[Path]:
    """The unpacked archive and a copy of the binary, readable by every user."""
    folder = Path(tempfile.mkdtemp(prefix="loadstone-cases-"))
    folder.chmod(0o755)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="fully_trusted")
    shutil.copy(BINARY, folder / "loadstone-under-test")
    (folder / "loadstone-under-test").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run(command: str, world: Path, case: Path, verb: str = "load", cwd: str | None = None) -> Result:
    other_user = command.startswith(OTHER_USER)
    command = command.removeprefix(OTHER_USER)
    command = command.replace("/abs/path/to/", f"{case}/")
    command = re.sub(r"\bLOAD\b", f"{world}/loadstone-under-test {verb} --json", command)
    words = ["bash", "-c", command]
    if other_user and os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed: cannot run as another user")
        case.chmod(0o777)
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    done = subprocess.run(
        words,
        cwd=cwd or case,
        capture_output=True,
        timeout=TIME_LIMIT,
        stdin=subprocess.DEVNULL,
        check=False,
        env=environment(),
    )
    return Result(done.returncode, done.stdout, done.stderr.decode(errors="backslashreplace"))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def inspect_command(command: str) -> str:
    """The command with what concerns the devices taken out."""
    shell = command.startswith("(")
    out, skip = [], False
    for word in shlex.split(command.strip("()")):
        if skip:
            skip = False
        elif word in WITH_VALUE:
            skip = True
        elif word not in WITHOUT_VALUE:
            out.append(word if word in {";", "&&", "LOAD"} or word.endswith(";") else shlex.quote(word))
    words = " ".join(out)
    return f"({words})" if shell else words


def expected_files(listed: list[str]) -> list[str]:
    """ "s0.npy ... s899.npy, by number" stands for all of them."""
    if len(listed) == 1 and (found := re.fullmatch(r"s0\.npy \.\.\. s(\d+)\.npy, by number", listed[0])):
        return [f"s{i}.npy" for i in range(int(found[1]) + 1)]
    return listed


def option(command: str, name: str) -> str | None:
    words = shlex.split(command.strip("()"))
    return words[words.index(name) + 1] if name in words else None


def check_value(want: dict[str, Any], result: Result, command: str, world: Path, case: Path) -> None:
    assert result.code == 0, f"exit {result.code}: {result.err}"
    body = result.json
    assert body["ok"] is True and body["verb"] == "load"
    (array,) = body["arrays"]
    assert array["shape"] == want["shape"]
    assert array["dtype"] == want["dtype"]
    assert all(type(n) is int for n in (array["bytes"], *array["shape"]))

    dump = option(command, "--dump")
    if dump:
        assert sha256(case / dump) == want["sha256"]
    pattern = option(command, "--dump-each")
    shards = {shard["device"]: shard for shard in body["shards"]}
    if pattern:
        assert sorted(shards) == sorted(place["device"] for place in want["placement"])
        for place in want["placement"]:
            assert shards[place["device"]]["index"] == place["index"]
            assert sha256(case / pattern.format(device=place["device"])) == place["sha256"]
        if "--verify" in command:
            assert body["verdict"]["ok"] is True
    else:
        assert "placement" not in want

    if "files" in want:
        inspected = run(inspect_command(command), world, case, "inspect")
        assert inspected.code == 0, inspected.err
        files = [name.split("input/", 1)[1] for name in inspected.json["arrays"][0]["files"]]
        assert files == expected_files(want["files"])
        assert [name.split("input/", 1)[1] for name in array["files"]] == files


def check_error(want: dict[str, Any], result: Result, before: list[str], case: Path) -> None:
    assert result.code in (2, 3, 4), f"exit {result.code}: {result.out!r} {result.err}"
    error = result.error
    assert error["kind"] == {2: "usage", 3: "data", 4: "system"}[result.code]
    for message in (error["message"], result.err):
        for words in want["words"]:
            assert any(word.lower() in message.lower() for word in words.split("|")), f"{words!r} not in {message!r}"
    assert files_in(case) == before, "an output file was left"


@pytest.mark.parametrize("name", case_ids())
# covers: loading E2
# covers: loading E6
# covers: loading E15
def test_case(name: str, world: Path) -> None:
    case = world / name
    want = json.loads((case / "expected.json").read_text())
    command = want["command"]
    if want["format"] == "big" and os.environ.get("LOADSTONE_BIG") != "1":
        pytest.skip("large files: set LOADSTONE_BIG=1")
    before = files_in(case)
    shell = command.replace("--dump out.bin", f"--dump {case}/out.bin") if "cwd" in want else command
    result = run(shell, world, case, cwd=want.get("cwd"))
    assert want["expect"] in {"value", "error"}, "a case without a result"
    outcome = want
    other = want.get("also_ok", want)
    if other.get("expect", want["expect"]) != want["expect"] and (result.code == 0) != (want["expect"] == "value"):
        outcome = {**want, **other}  # the other answer that is right, too
    if outcome["expect"] == "value":
        check_value(outcome, result, command, world, case)
    else:
        check_error(outcome, result, before, case)
