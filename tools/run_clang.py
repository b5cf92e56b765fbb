#!/usr/bin/env python3
"""Runs clang 14 over the sources in BUILD_DIR/compile_commands.json: `run_clang.py syntax|tidy BUILD_DIR… [NAME PART…]`.

tidy: clang-tidy with .clang-tidy on all but tests; it reports the compiler's warnings, too. syntax: clang++ -fsyntax-only
-Werror on the rest, the tests. A file whose command, content and headers have not changed since it last passed is not
looked at again.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

FOLDERS = ("src", "cli", "python", "tests", "bench", "examples")


def clang_arguments(entry: dict[str, str]) -> list[str]:
    """The flags of the entry that clang has, too: defines, includes, language, warnings."""
    words = shlex.split(entry["command"])
    kept = [w for w in words if re.match(r"-(D|I|std=|W(?!l,)|m|f(PIC|visibility))", w)]
    for flag, value in zip(words, words[1:], strict=False):
        if flag == "-isystem":
            kept += [flag, value]
    return kept


def headers_digest() -> str:
    """Changes when any header, the configuration or this script does."""
    files = [*(ROOT / "src").rglob("*.h"), *(ROOT / "cli").rglob("*.h"), *(ROOT / "python").rglob("*.h")]
    files += [*(ROOT / "tests").rglob("*.h"), ROOT / ".clang-tidy", pathlib.Path(__file__)]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def check(entry: dict[str, str], mode: str, common: str, stamps: pathlib.Path) -> tuple[str, str]:
    """'' when the file is well, else what clang said."""
    file = pathlib.Path(entry["file"])
    arguments = clang_arguments(entry)
    key = hashlib.sha256(f"{mode}{common}{file}{arguments}".encode() + file.read_bytes()).hexdigest()
    stamp = stamps / key
    name = str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)
    if stamp.exists():
        return name, ""
    if mode == "syntax":
        command = ["clang++-14", "-fsyntax-only", "-Werror", *arguments, str(file)]
    else:
        command = ["clang-tidy-14", "--quiet", str(file), "--", *arguments]
    run = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    if run.returncode == 0:
        stamp.touch()
        return name, ""
    return name, run.stdout + run.stderr


def main() -> int:
    mode, words = sys.argv[1], sys.argv[2:]
    builds = [pathlib.Path(word) for word in words if (pathlib.Path(word) / "compile_commands.json").exists()]
    only = [word for word in words if pathlib.Path(word) not in builds]
    entries: dict[str, dict[str, str]] = {}
    for build in builds:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            file = entry["file"]
            ours = file.startswith(tuple(f"{ROOT}/{folder}/" for folder in FOLDERS))
            wanted = file.endswith("_test.cc") == (mode == "syntax") and (not only or any(part in file for part in only))
            if ours and wanted:
                entries.setdefault(file, entry)
    stamps = ROOT / "build/clang"
    stamps.mkdir(parents=True, exist_ok=True)
    common = headers_digest()
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, said in pool.map(lambda entry: check(entry, mode, common, stamps), entries.values()):
            if said:
                bad += 1
                print(f"{name}:\n{said}")
    print(f"{mode}: {len(entries)} files, {bad} with faults")
    return 1 if bad or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
