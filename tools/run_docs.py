#!/usr/bin/env python3
"""Runs the code of the documents and compares what it prints with what they say it prints.

    ```console      each `$ command` runs in a shell; the lines after it are its output
    ```python       a whole program; a ```text block right after it is its output
    ```cpp          the same, compiled against the installed package

`…` in a stated output stands for anything, also for whole lines when it is alone on one. Blocks of one document run in
order in one empty folder. Others (```sh, ```cmake) are not run. Names of documents may be given; `--write` puts what
was printed into the document where it differs or where `…` stands alone.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/tour.md", "docs/convert.md", "docs/errors.md", "docs/memory_view.md")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.S | re.M)
VENV = ROOT / ".venv"


def matches(stated: str, printed: str) -> bool:
    lines = [line.rstrip() for line in stated.strip("\n").splitlines()]
    pattern = ""
    for line in lines:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split("…")) + "\n"
    shown = "".join(line.rstrip() + "\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, shown) is not None


def run(command: list[str] | str, folder: str) -> str:
    environment = dict(os.environ, PATH=f"{VENV}/bin:{os.environ['PATH']}", PYTHONWARNINGS="error")
    environment.pop("LOADSTONE_TRACE", None)
    done = subprocess.run(
        command, shell=isinstance(command, str), cwd=folder, env=environment, text=True, timeout=600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    ended_badly = done.returncode != 0 and not isinstance(command, str)
    return done.stdout + (f"(exit status {done.returncode})\n" if ended_badly else "")


def run_cpp(text: str, folder: str) -> str:
    cmake_dir = run([str(VENV / "bin/python"), "-m", "loadstone", "--cmake-dir"], folder).strip()
    project = pathlib.Path(folder, "cpp")
    project.mkdir(exist_ok=True)
    (project / "main.cc").write_text(text)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(example LANGUAGES CXX)\n"
        "find_package(loadstone REQUIRED)\nadd_executable(main main.cc)\n"
        "target_link_libraries(main PRIVATE loadstone::loadstone)\n"
    )
    built = run(f"cmake -S cpp -B cpp/build -G Ninja -Dloadstone_DIR={cmake_dir} && ninja -C cpp/build", folder)
    program = project / "build/main"
    return run([str(program)], folder) if program.exists() else built


def parts_of(language: str, body: str) -> list[tuple[str, str]]:
    """Commands of a console block with their stated outputs."""
    parts: list[tuple[str, str]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            parts.append((line[2:], ""))
        elif parts and parts[-1][0].endswith("\\"):
            parts[-1] = (parts[-1][0] + "\n" + line, "")
        elif parts:
            parts[-1] = (parts[-1][0], parts[-1][1] + line + "\n")
    return parts


def check_document(document: pathlib.Path, write: bool) -> tuple[int, list[str]]:
    text = document.read_text()
    blocks = list(FENCE.finditer(text))
    edits: list[tuple[int, int, str]] = []
    faults, ran = [], 0

    def compare(stated: str, printed: str, start: int, end: int, what: str) -> None:
        if stated.strip() == "…" or not matches(stated, printed):
            edits.append((start, end, printed))
        if matches(stated, printed):
            return
        line = text.count("\n", 0, start) + 1
        faults.append(f"{document.relative_to(ROOT)}:{line}: {what}\n--- stated\n{stated}--- printed\n{printed}")

    with tempfile.TemporaryDirectory() as folder:
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            language, body = block.groups()
            if language == "console":
                at = block.start(2)
                for command, stated in parts_of(language, body):
                    ran += 1
                    at = text.index("$ " + command, at) + len(command) + 3
                    compare(stated, run(command, folder), at, at + len(stated), f"$ {command}")
                    at += len(stated)
            elif language in ("python", "cpp"):
                ran += 1
                has_output = following is not None and following.group(1) == "text"
                has_output = has_output and not text[block.end() : following.start()].strip()
                stated = following.group(2) if has_output else ""
                python = [str(VENV / "bin/python"), "-c", body]
                printed = run_cpp(body, folder) if language == "cpp" else run(python, folder)
                start, end = following.span(2) if has_output else (block.end(), block.end())
                compare(stated, printed, start, end, f"{language} block prints something else")
    if write:
        for start, end, printed in reversed(edits):
            text = text[:start] + printed.strip("\n") + "\n" + text[end:]
        document.write_text(text)
    return ran, faults


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--write"] or DOCUMENTS
    total, faults = 0, []
    for name in names:
        ran, found = check_document((ROOT / name).resolve(), "--write" in sys.argv[1:])
        total += ran
        faults += found
    print("\n".join(faults) if faults else f"docs: {total} pieces of code in {len(names)} documents print what they say")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
