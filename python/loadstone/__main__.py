"""python -m loadstone --cmake-dir | --include-dir | --version: where the C++ half of the package is."""

from __future__ import annotations

import argparse
import importlib.metadata
import pathlib


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadstone", description=__doc__.split(": ", 1)[1])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--cmake-dir", action="store_true", help="for CMAKE_PREFIX_PATH or loadstone_DIR")
    group.add_argument("--include-dir", action="store_true", help="the folder of the C++ headers")
    group.add_argument("--version", action="store_true", help="the version of the package")
    chosen = parser.parse_args()
    here = pathlib.Path(__file__).resolve().parent
    if chosen.cmake_dir:
        print(here / "lib" / "cmake" / "loadstone")
    elif chosen.include_dir:
        print(here / "include")
    else:
        print(importlib.metadata.version("loadstone"))


if __name__ == "__main__":
    main()
