"""What the command line understands: help, unknown words, bad values, odd paths."""

from pathlib import Path

import pytest
from loadstone_cli import failing, good

VERBS = ["inspect", "plan", "load", "verify", "digest", "write", "convert", "bench", "doctor", "completion"]


def test_version() -> None:
    assert good("--version").out == b"loadstone 0.1.0\n"


@pytest.mark.parametrize("verb", VERBS)
# covers: loading E16
def test_help_of_each_verb_has_examples_and_the_json_option(verb: str) -> None:
    text = good(verb, "--help").out.decode()
    assert f"loadstone {verb}" in text.split("Examples:")[1]
    assert "--json" in text
    assert verb in good("--help").out.decode()


@pytest.mark.parametrize(
    "args, wanted",
    [
        (["load", "--mehs", "x=2", "."], "--mesh"),
        (["load", "--strategi=auto", "."], "--strategy"),
        (["load", "--dump-eahc", "x", "."], "--dump-each"),
        (["inspect", "--expect-file", "3", "."], "--expect-files"),
        (["inspect", "--mesh", "x=2", "."], "load"),  # known elsewhere
        (["write", "d", "--shap", "3"], "--shape"),
        (["lode", "."], "load"),
        (["--versoin"], "--version"),
    ],
)
# covers: loading E17
def test_an_unknown_word_is_a_usage_error_with_the_nearest_known_one(
    args: list[str], wanted: str, tmp_path: Path
) -> None:
    for more in ([], ["--json"]):
        result = failing(2, *args, *more, cwd=tmp_path)
        assert wanted in result.err
        assert next(a for a in args if a.startswith("-") or a == "lode").split("=")[0] in result.err
    assert result.error["kind"] == "usage"


@pytest.mark.parametrize("args", [[], ["load"], ["write"], ["completion"], ["load", "-x", "."], ["inspect", ""]])
# covers: loading E15
def test_a_command_line_that_says_too_little_is_a_usage_error(args: list[str]) -> None:
    failing(2, *args)
    assert failing(2, *args, "--json").error["kind"] == "usage"


@pytest.mark.parametrize(
    "option, bad",
    [
        ("--threads", "0"),
        ("--threads", "many"),
        ("--threads", "99999999"),
        ("--memory-budget", "1.5XB"),
        ("--window", "0"),
        ("--window", "-1"),
        ("--expect-rows", "-1"),
        ("--expect-files", "2.5"),
        ("--over-decompose", "x"),
        ("--offset", " 1"),
        ("--uneven", "maybe"),
        ("--order", "c"),
        ("--format", "nyp"),
        ("--verify=most", None),
        ("--dtype", ""),
        ("--dump", ""),
        ("--trace", ""),
        ("--array", ""),
        ("--files-from", ""),
    ],
)
# covers: loading E15
def test_a_bad_value_is_a_usage_error_that_names_the_option_and_the_value(
    option: str, bad: str | None, data: Path
) -> None:
    args = [option] if bad is None else [option, bad]
    paths = [] if option == "--files-from" else [data]
    message = failing(2, "load", *paths, *args, "--json").error["message"]
    assert ("most" if bad is None else bad or "''") in message
    if option not in {"--dump", "--trace", "--format"}:
        assert option.split("=")[0] in message


@pytest.mark.parametrize(
    "option, value, formats",
    [("--strict", None, "zarr"), ("--fill", "0", "parquet"), ("--columns", "a,b", "parquet")],
)
def test_options_of_other_formats_are_refused_with_the_formats_they_are_for(
    option: str, value: str | None, formats: str, data: Path
) -> None:
    message = failing(2, "load", data, option, *([value] if value else []), "--json").error["message"]
    assert option in message and formats in message and "npy" in message


@pytest.mark.parametrize(
    "spec", [["--spec", "-,y"], ["--spec=-,y"], ["--spec", "-"], ["--spec=-"], ["--spec", ""], ["--spec="]]
)
def test_a_spec_may_begin_with_a_dash_or_be_empty(spec: list[str], data: Path) -> None:
    body = good("load", data, "--mesh", "y=2", *spec, "--json").json
    columns = [shard["index"][1] for shard in body["shards"]]
    assert columns == ([[0, 8], [8, 16]] if "y" in spec[-1].replace("--spec", "") else [[0, 16], [0, 16]])


def test_a_path_may_look_like_an_option_a_verb_or_a_list(tmp_path: Path, data: Path) -> None:
    for name in ("-x.npy", "load", "[a,b]", "--json"):
        (tmp_path / name).write_bytes((data / "shard_0000.npy").read_bytes())
    for args in (["--", "-x.npy"], ["load"], ["[a,b]"], ["--", "--json"], ["./--json"]):
        good("inspect", *args, cwd=tmp_path)
    failing(2, "load", "-x.npy", cwd=tmp_path)
