#!/usr/bin/env python3
"""Reports files and functions that are longer than the house style asks for. Never fails: it is a question, not a rule."""

import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "cli", "python", "tests", "tools", "bench", "examples")
LIMITS = {".h": 250, ".cc": 500, ".py": 500}
FUNCTION_LINES = 60


def long_functions(file: pathlib.Path) -> list[str]:
    """Top-level C++ functions, found by clang-format's layout: they open on an unindented line, close on a bare '}'."""
    found, start, head = [], None, ""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if start is None and line[:1].strip() and line.endswith("{") and "(" in line and "TEST" not in line:
            start, head = number, line
        elif start is not None and line.startswith("}"):
            if number - start > FUNCTION_LINES:
                found.append(f"{file.relative_to(ROOT)}:{start}: {number - start} lines: {head[:80]}")
            start = None
    return found


def main() -> int:
    files = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*")) if p.suffix in LIMITS]
    lines = {p: len(p.read_text().splitlines()) for p in files}
    for file, count in lines.items():
        if count > LIMITS[file.suffix]:
            print(f"{file.relative_to(ROOT)}: {count} lines, aim is {LIMITS[file.suffix]}")
    for file in files:
        if file.suffix == ".cc":
            for line in long_functions(file):
                print(line)
    print(f"sizes: {len(files)} files, {sum(lines.values())} lines, median {statistics.median(lines.values()):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
