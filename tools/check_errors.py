#!/usr/bin/env python3
"""Finds what the error model forbids under src/: a throw of anything but Error, and calls that end the process."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# throw Error(…), Interrupted(…), usage_error(…) and the like, error.with_prefix(…), or a plain rethrow. A function that
# the file itself defines as `Error name(…)` is as good.
ALLOWED = re.compile(r"throw\s*(;|(loadstone::)?(Error|Interrupted)\b|(?!std::)[\w:]*_error\s*\(|[\w.()]+\.with_prefix\()")
FORBIDDEN = re.compile(r"\b(std::)?(abort|terminate|_?exit|quick_exit)\s*\(")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)


def without_comments_and_strings(text: str) -> str:
    """The same text with comments and literals blanked; line numbers stay."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def check_file(file: pathlib.Path) -> list[str]:
    text = without_comments_and_strings(file.read_text())
    helpers = set(re.findall(r"^(?:loadstone::)?Error (\w+)\(", text, re.M))
    faults = []
    for found in re.finditer(r"\bthrow\b\s*(\w*)", text):
        if not ALLOWED.match(text, found.start()) and found.group(1) not in helpers:
            shown = " ".join(text[found.start() : found.start() + 60].split("\n")[0].split())
            faults.append((found.start(), f"'{shown}' throws something that is not a loadstone::Error"))
    for found in FORBIDDEN.finditer(text):
        faults.append((found.start(), f"'{found.group(0)}' ends the process: throw an Error"))
    name = file.relative_to(ROOT)
    return [f"{name}:{text.count(chr(10), 0, at) + 1}: {what}" for at, what in sorted(faults)]


def main() -> int:
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".h", ".cc"})
    files = [p for p in files if not p.name.endswith("_test.cc")]
    faults = [fault for file in files for fault in check_file(file)]
    print("\n".join(faults) if faults else f"errors: every throw in {len(files)} files is an Error")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
