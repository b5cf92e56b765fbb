"""The checks of tools/ find what they are for."""

import importlib.util
import pathlib
import types

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


LAYERS = "base:\narray: base\nplan: base array format/catalog.h\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('#include "loadstone/base/error.h"\n', ""),
        ('#include "loadstone/format/catalog.h"\n', ""),
        ('#include "loadstone/format/format.h"\n', "src/loadstone/plan/plan.cc:1: plan must not include format/format.h: "),
        ('// why\n#include "plan.h"\n', 'src/loadstone/plan/plan.cc:2: "plan.h" is not included by its full path'),
        ('#include "loadstone/base/gone.h"\n', "src/loadstone/plan/plan.cc:1: loadstone/base/gone.h does not exist"),
    ],
)
def test_check_layers_names_file_line_and_what_is_allowed(
    text: str, fault: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {f"src/loadstone/{name}": "" for name in ("base/error.h", "format/catalog.h", "format/format.h")}
    tree(tmp_path, {**headers, "src/loadstone/plan/plan.cc": text})
    checks = tool("check_layers")
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/layers.txt").write_text(LAYERS)
    faults = checks.check_file(tmp_path / "src/loadstone/plan/plan.cc", checks.read_layers())
    assert len(faults) == (1 if fault else 0)
    assert not fault or faults[0].startswith(fault)


def test_check_layers_refuses_a_module_without_a_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"src/loadstone/new/new.cc": "", "docs/layers.txt": LAYERS})
    checks = tool("check_layers")
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    faults = checks.check_file(tmp_path / "src/loadstone/new/new.cc", checks.read_layers())
    assert faults == ["src/loadstone/new/new.cc:1: module 'new' is not in docs/layers.txt: known are base, array, plan"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('throw Error(ErrorKind::data, "x");', ""),
        ("throw Interrupted();", ""),
        ('throw usage_error(cat("x"));', ""),
        ('throw error.with_prefix("x");', ""),
        ("Error too_big() {}\nthrow too_big();", ""),
        ("catch (...) { throw; }", ""),
        ("// throw std::runtime_error\n", ""),
        ('say("throw 3");', ""),
        ('throw std::runtime_error("x");', "throws something that is not a loadstone::Error"),
        ("throw 3;", "throws something that is not a loadstone::Error"),
        ("std::abort();", "ends the process"),
        ("exit(1);", "ends the process"),
    ],
)
def test_check_errors_knows_what_may_be_thrown(
    text: str, fault: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"src/a.cc": "int a;\n" + text})
    checks = tool("check_errors")
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    faults = checks.check_file(tmp_path / "src/a.cc")
    assert len(faults) == (1 if fault else 0)
    assert not fault or (faults[0].startswith("src/a.cc:2: ") and fault in faults[0])


def test_requirements_table_reads_covers_lines(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        {
            "src/a_test.cc": "// covers: loading R11, R12; faults F9\nTEST(Reader, Continues) {}\n",
            "tests/test_b.py": "\n# why\n# covers: sharding G1,\n#   G2\n# covers: engines 10\n@x.mark(\n 1)\ndef test_b():\n    pass\n",
            "tests/test_c.py": "# covers: loading R1-R3\ndef test_c():\n    pass\n\n\n# covers: loading R4\nx = 3\n",
        },
    )
    table = tool("requirements_table")
    monkeypatch.setattr(table, "ROOT", tmp_path)
    covered, faults = table.scan()
    assert covered["loading", "R12"] == covered["faults", "F9"] == ["`src/a_test.cc` Reader.Continues"]
    assert covered["sharding", "G2"] == covered["engines", "10"] == ["`tests/test_b.py` test_b"]
    assert len(faults) == 2
    assert "cannot read" in faults[0] and "only 1 stand directly above a test" in faults[1]


def test_run_docs_compares_and_takes_an_ellipsis_for_anything() -> None:
    matches = tool("run_docs").matches
    assert matches("a\nb", "a\nb\n")
    assert matches("took … s", "took 0.3 s\n")
    assert matches("a\n…\nz", "a\nb\nc\nz\n")
    assert matches("…", "")
    assert not matches("a", "a\nb\n")
    assert not matches("", "warning\n")


def test_test_summary_adds_ctest_and_pytest() -> None:
    count = tool("test_summary").count
    assert count("3/3 Test #3: A.B ....***Skipped   0.0 sec\n67% tests passed, 1 tests failed out of 3\n") == (1, 1, 1)
    assert count("===== 2 failed, 5 passed, 1 skipped, 3 warnings in 1.25s =====\n") == (5, 2, 1)
    assert count("===== 1 passed in 61.00s (0:01:01) =====\n") == (1, 0, 0)
