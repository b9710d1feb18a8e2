"""Words typed become typed values, and words that mean nothing end with 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parity import __version__
from parity.cli import parser as cli
from parity.commands.options import BundleOptions
from parity.verify.options import VerifyOptions


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Run a command line of which the verb only notes what it is told."""
    reported: list[Any] = []

    def note(*arguments: object) -> int:
        reported.append(arguments)
        return 0

    for verb in ("verify", "fetch", "pin"):
        monkeypatch.setattr(f"parity.commands.{verb}.{verb}", note)

    def run(line: str) -> Any:
        assert cli.run(line.split()) == 0
        return reported[-1]

    return run


def test_verify_without_a_word_has_the_documented_defaults(typed: Callable[[str], Any]) -> None:
    options, _make_console = typed("verify")
    assert options == VerifyOptions(
        repo=Path.cwd(),
        lockfile=Path("fixtures.lock.yaml").absolute(),
        offline=False,
        rehash=False,
        bundles=(),
        cases=(),
        dumps=None,
        report_dir=None,
        report_formats=options.report_formats,
        fail_on="mismatch",
        toolchain="",
        cargo_args=(),
        jobs=None,
        repeat=1,
        min_cases=1,
        deadline=None,
    )
    assert "json" in options.report_formats


def test_every_word_of_verify_arrives(typed: Callable[[str], Any]) -> None:
    options, _make_console = typed(
        "verify --repo ../port --offline --rehash --bundle a --bundle b --case a/* --case !a/x "
        "--dumps d --report-dir r --report-formats json --fail-on warning --toolchain nightly "
        "--cargo-args=--locked --cargo-args=-v --jobs 4 --repeat 2 --min-cases 0 --deadline 1.5e3"
    )
    repo = Path.cwd().parent / "port"
    assert (options.repo, options.lockfile) == (repo, repo / "fixtures.lock.yaml")
    assert (options.offline, options.rehash) == (True, True)
    assert (options.bundles, options.cases) == (["a", "b"], ["a/*", "!a/x"])
    assert (options.dumps, options.report_dir) == (Path("d").absolute(), Path("r").absolute())
    assert (options.report_formats, options.fail_on) == (("json",), "warning")
    assert (options.toolchain, options.cargo_args) == ("nightly", ["--locked", "-v"])
    assert (options.jobs, options.repeat, options.min_cases) == (4, 2, 0)
    assert options.deadline == 1500.0


@pytest.mark.parametrize(
    "line", ["pin tensors a b c --out x", "pin tensors a --out x b c", "pin --out x tensors a b c"]
)
def test_options_may_be_between_positional_arguments(
    line: str, typed: Callable[[str], Any]
) -> None:
    options, _console = typed(line)
    paths = [path.name for path in (options.folder, *options.more, options.out)]
    assert (options.kind, paths) == ("tensors", ["a", "b", "c", "x"])


def test_the_words_of_a_report_arrive(typed: Callable[[str], Any]) -> None:
    options, _make_console = typed("verify --annotations 3 --summary compact")
    assert (options.annotations, options.summary) == (3, "compact")
    options, _make_console = typed("verify")
    assert (options.annotations, options.summary, options.private_bundles) == (10, "full", ())


@pytest.mark.parametrize("typed_formats", ["json,json", "json json", " json, "])
def test_report_formats_are_parted_by_commas_or_spaces(
    monkeypatch: pytest.MonkeyPatch, typed_formats: str
) -> None:
    found: list[VerifyOptions] = []
    monkeypatch.setattr("parity.commands.verify.verify", lambda o, _t: found.append(o) or 0)
    cli.run(["verify", "--report-formats", typed_formats])
    assert set(found[0].report_formats) == {"json"}


def test_a_lockfile_of_another_name_is_relative_to_the_working_folder(
    typed: Callable[[str], Any],
) -> None:
    options, _make_console = typed("verify --repo port --lockfile other.yaml")
    assert options.lockfile == Path("other.yaml").absolute()


def test_every_word_of_fetch_arrives(typed: Callable[[str], Any]) -> None:
    options, _make_console = typed("fetch --repo p --offline a b")
    assert options == BundleOptions(
        repo=Path("p").absolute(),
        lockfile=Path("p/fixtures.lock.yaml").absolute(),
        offline=True,
        rehash=False,
        bundles=["a", "b"],
    )
    assert typed("fetch")[0].bundles == ()


def test_every_word_of_pin_arrives(typed: Callable[[str], Any]) -> None:
    options, _make_console = typed("pin serialize --out o --size full --pth a.pth --gguf b.gguf")
    assert (options.kind, options.out) == ("serialize", Path("o").absolute())
    paths = {"pth": Path("a.pth").absolute(), "gguf": Path("b.gguf").absolute()}
    assert options.extra == {"size": "full", **paths}
    extra = typed("pin trace --max-size 1073741824 --seed 0")[0].extra
    assert extra == {"max_size": 2**30, "seed": 0}
    assert typed("pin")[0].kind == ""
    assert typed("pin")[0].extra == {}


def test_the_exit_code_of_a_verb_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.commands.verify.verify", lambda _options, _make_console: 7)
    assert cli.run(["verify"]) == 7


def test_what_moves_on_a_terminal_is_taken_down_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    def fail(_options: object, _make_console: object) -> int:
        raise RuntimeError

    monkeypatch.setattr("parity.commands.verify.verify", fail)
    monkeypatch.setattr(
        "parity.reports.console.RunConsole.close", lambda _self: closed.append(True)
    )
    with pytest.raises(RuntimeError):
        cli.run(["verify"])
    assert closed == [True]


USAGE: dict[str, tuple[Sequence[str], str]] = {
    "no verb": ([], "the following arguments are required: VERB"),
    "unknown verb": (["verfiy"], "invalid choice: 'verfiy'"),
    "unknown option": (["verify", "--dump"], "unrecognized arguments: --dump"),
    "abbreviated option": (["verify", "--off"], "unrecognized arguments: --off"),
    "abbreviated option of the top": (["--ver"], "required: VERB"),
    "stray word": (["verify", "a"], "unrecognized arguments: a"),
    "option without a value": (["verify", "--bundle"], "argument --bundle: expected one argument"),
    "fail-on unknown": (["verify", "--fail-on", "all"], "argument --fail-on: invalid choice"),
    "jobs zero": (["verify", "--jobs", "0"], "argument --jobs: must be at least 1"),
    "jobs negative": (["verify", "--jobs=-1"], "argument --jobs: '-1' is not a whole number"),
    "jobs a fraction": (["verify", "--jobs", "1.5"], "--jobs: '1.5' is not a whole number"),
    "jobs empty": (["verify", "--jobs", ""], "--jobs: '' is not a whole number"),
    "jobs far too many": (["verify", "--jobs", "9" * 5000], "is not a whole number"),
    "jobs in other digits": (["verify", "--jobs", "\u0663"], "is not a whole number"),
    "repeat zero": (["verify", "--repeat", "0"], "argument --repeat: must be at least 1"),
    "min-cases words": (["verify", "--min-cases", "all"], "'all' is not a whole number"),
    "deadline zero": (["verify", "--deadline", "0"], "'0' is not a positive number of seconds"),
    "deadline nan": (["verify", "--deadline", "nan"], "'nan' is not a positive number"),
    "deadline inf": (["verify", "--deadline", "inf"], "'inf' is not a positive number"),
    "deadline words": (["verify", "--deadline", "1h"], "'1h' is not a positive number"),
    "format unknown": (["verify", "--report-formats", "json pdf"], "'pdf' is not one of "),
    "max-size in words": (["pin", "trace", "--max-size", "all"], "'all' is not a size such as"),
    "size unknown": (["pin", "--size", "huge"], "argument --size: invalid choice: 'huge'"),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_word_that_means_nothing_ends_with_2(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = USAGE[name]
    with pytest.raises(SystemExit) as ended:
        cli.run(words)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "usage: parity" in err


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"parity-action {__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["verify", "--help"], ["fetch", "-h"]])
def test_help_reports_every_exit_code(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(words)
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 70):
        assert f"\n  {code} " in out


def test_old_name_of_rehash_still_works_and_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    parser = cli.build_parser()
    assert parser.parse_args(["fetch", "--verify"]).rehash
    with pytest.raises(SystemExit):
        parser.parse_args(["fetch", "--help"])
    out = capsys.readouterr().out
    assert "--rehash" in out
    assert "--verify" not in out
