#!/usr/bin/env python3
"""Adds up what ctest and pytest said in the logs given: one line, 'summary: N passed, N failed, N skipped'."""

import pathlib
import re
import sys


def count(text: str) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    for found in re.finditer(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", text):
        not_run = len(re.findall(r"\*\*\*Skipped", text))
        failed += int(found.group(2))
        skipped += not_run
        passed += int(found.group(3)) - int(found.group(2)) - not_run
    for line in re.findall(r"^=+ (.* in [\d.]+s.*?) =+$", text, re.M):
        numbers = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", line)}
        passed += numbers.get("passed", 0) + numbers.get("xfailed", 0)
        failed += sum(numbers.get(word, 0) for word in ("failed", "error", "errors", "xpassed"))
        skipped += numbers.get("skipped", 0)
    return passed, failed, skipped


def main() -> None:
    logs = [pathlib.Path(name) for name in sys.argv[1:]]
    sums = [count(log.read_text(errors="replace")) for log in logs if log.exists()]
    passed, failed, skipped = (sum(column) for column in zip(*sums, strict=True)) if sums else (0, 0, 0)
    print(f"summary: {passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
