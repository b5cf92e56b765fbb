#!/usr/bin/env python3
"""Checks docs/layers.txt against every `#include "loadstone/…"` under src/loadstone. Direct includes, tests excluded."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_layers() -> dict[str, list[str]]:
    layers = {}
    for line in (ROOT / "docs/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            module, _, allowed = line.partition(":")
            layers[module.strip()] = allowed.split()
    return layers


def module_of(path: str) -> str:
    """base/error.h -> base; load.h -> load."""
    return path.split("/")[0] if "/" in path else path.split(".")[0]


def check_file(file: pathlib.Path, layers: dict[str, list[str]]) -> list[str]:
    src = ROOT / "src"
    module = module_of(str(file.relative_to(src / "loadstone")))
    shown = file.relative_to(ROOT)
    if module not in layers:
        return [f"{shown}:1: module '{module}' is not in docs/layers.txt: known are {', '.join(layers)}"]
    allowed = layers[module]
    faults = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name = found.group(1)
        where = f"{shown}:{number}:"
        if not name.startswith("loadstone/"):
            faults.append(f'{where} "{name}" is not included by its full path')
        elif not (src / name).exists():
            faults.append(f"{where} {name} does not exist")
        else:
            target = name.removeprefix("loadstone/")
            if module_of(target) != module and module_of(target) not in allowed and target not in allowed:
                may = " ".join(allowed) or "nothing"
                faults.append(f"{where} {module} must not include {target}: allowed are {may}")
    return faults


def check_table(layers: dict[str, list[str]]) -> list[str]:
    """Each module may only name modules above it in the file, so the table has no cycle."""
    faults, seen = [], set()
    for module, allowed in layers.items():
        faults += [
            f"docs/layers.txt: {module} allows '{name}', which is not listed above it"
            for name in allowed
            if module_of(name) not in seen
        ]
        seen.add(module)
    return faults


def main() -> int:
    layers = read_layers()
    files = sorted(p for p in (ROOT / "src/loadstone").rglob("*") if p.suffix in {".h", ".cc"})
    files = [p for p in files if not p.name.endswith("_test.cc")]
    faults = check_table(layers) + [fault for file in files for fault in check_file(file, layers)]
    print("\n".join(faults) if faults else f"layers: {len(files)} files keep to docs/layers.txt")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
