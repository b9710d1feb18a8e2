"""Where a run's report goes: what cannot be written costs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parity.errors import ConfigError
from parity.store.disk import replace_file
from parity.verify import publish
from parity.verify.options import ReportOptions
from tests.support.batches import ORDER, make_row
from tests.support.bench import Bench
from tests.support.reports import make_report

FORMS = ("json", "junit", "html")
#: What a green and a red run end with where all is written.
VERDICTS = {True: 0, False: 1}


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    made = Bench(tmp_path, capsys)
    made.add_bundle("loaders", {"ordered": ORDER})
    return made


def spoil(bench: Bench) -> None:
    batches = ORDER.make_run()
    batches[1][0] = make_row(2)
    bench.write_dump("loaders", "ordered", batches)


def full_disk_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft of the file with this name cannot be put in its place."""
    whole = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name != name:
            return whole(path, target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)


_ADVICE = "  advice: name another folder; all other reports are written\n"


@pytest.mark.parametrize("green", VERDICTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_report_that_cannot_be_written_costs_none_of_the_others(
    form: str, green: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not green:
        spoil(bench)
    full_disk_for(publish.REPORT_FILES[form], monkeypatch)
    ran = bench.verify("--report-formats", " ".join(FORMS))
    assert ran.code == 2
    name = publish.REPORT_FILES[form]
    assert (
        ran.err == f"error[report-dir] {name} cannot be written: No space left on device\n{_ADVICE}"
    )
    kept = {name for other, name in publish.REPORT_FILES.items() if other != form}
    assert {path.name for path in bench.report.iterdir() if path.is_file()} == kept
    assert f"(exit {VERDICTS[green]})" in ran.out


def test_every_report_that_cannot_be_written_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in ("html", "json"):
        full_disk_for(publish.REPORT_FILES[form], monkeypatch)
    ran = bench.verify("--report-formats", "html json junit")
    assert ran.code == 2
    names = [line.split()[1] for line in ran.err.splitlines() if line.startswith("error")]
    assert names == ["report.html", "report.json"]
    assert (bench.report / "junit.xml").is_file()


def test_a_fault_of_ours_in_one_report_costs_none_of_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: Any) -> str:
        raise RuntimeError

    monkeypatch.setattr("parity.reports.html.render_html", faulty)
    ran = bench.verify("--report-formats", "html json junit")
    assert ran.code == 70
    assert sorted(path.name for path in bench.report.iterdir()) == ["junit.xml", "report.json"]


def test_dumps_that_cannot_be_kept_do_not_cost_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parity.commands import verify  # noqa: PLC0415 - not in every environment

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "x").touch()
    monkeypatch.setattr("shutil.copytree", refused)
    (problem,) = verify._copy_dumps(tmp_path / "from", tmp_path / "dumps")
    assert problem.message.endswith("/dumps: No space left on device")


def a_folder(path: Path, _monkeypatch: pytest.MonkeyPatch) -> str:
    path.mkdir()
    try:
        path.open("ab")
    except OSError as error:  # systems have words of their own
        return str(error.strerror)
    pytest.fail("a folder was opened")


def full(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    whole = Path.open

    def opened(self: Path, *words: Any, **more: Any) -> Any:
        if self == path:
            raise OSError(28, "No space left on device")
        return whole(self, *words, **more)

    monkeypatch.setattr(Path, "open", opened)
    return "No space left on device"


@pytest.mark.parametrize("green", VERDICTS)
@pytest.mark.parametrize(
    ("variable", "what"),
    [("GITHUB_STEP_SUMMARY", "the job's summary"), ("GITHUB_OUTPUT", "the step's outputs")],
)
@pytest.mark.parametrize("broken", [a_folder, full])
@pytest.mark.parametrize("github", [True, False])
def test_what_the_runner_does_not_take_is_a_warning_and_no_verdict(
    *,
    github: bool,
    broken: Callable[[Path, pytest.MonkeyPatch], str],
    variable: str,
    what: str,
    green: bool,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not green:
        spoil(bench)
    names = ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")
    for name in names:
        monkeypatch.setenv(name, str(bench.root / name))
    monkeypatch.setenv("GITHUB_ACTIONS", "true" if github else "")
    why = broken(bench.root / variable, monkeypatch)
    ran = bench.verify()
    text = f"{what} cannot be written: {why}; the verdict is unchanged"
    assert ran.code == VERDICTS[green]
    assert ran.err == f"warning[runner-file] {text}\n"
    reported = f"::warning title=parity%3A runner-file::{text}"
    assert (reported in ran.out.splitlines()) is github
    assert json.loads((bench.report / "report.json").read_text("utf-8"))["exit_code"] == ran.code
    (other,) = set(names) - {variable}
    assert (bench.root / other).read_text("utf-8")


def test_an_error_that_ends_a_run_stands_though_no_summary_takes_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.root))
    ran = bench.verify("--case", "no/such")
    assert ran.code == 2
    assert ran.err.startswith("warning[runner-file] the job's summary cannot be written: ")
    assert "error[no-such-case]" in ran.err or "error[no-such-bundle]" in ran.err


def test_nothing_is_written_where_no_folder_is_named() -> None:
    assert publish.write_reports(None, 0, ReportOptions()) == []  # type: ignore[arg-type]  # unused


# --- links that the repo or a port put in the way -------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, and a file outside of it that nothing may change."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", ["report.json", "report.json.part"])
def test_a_report_replaces_a_link_and_leaves_its_target(name: str, workspace: Path) -> None:
    precious = workspace.parent / "outside" / "precious"
    options = ReportOptions(report_dir=workspace / "report")
    publish.check_writable(options)
    (workspace / "report" / name).symlink_to(precious)

    assert publish.write_reports(make_report(), 0, options) == []

    assert precious.read_text(encoding="utf-8") == "mine"
    assert not (workspace / "report" / "report.json").is_symlink()


@pytest.mark.parametrize("name", ["report", "report/below"])
def test_a_report_dir_that_is_a_link_is_rejected(name: str, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    (workspace / "report").symlink_to(outside, target_is_directory=True)

    with pytest.raises(ConfigError, match="symbolic link"):
        publish.check_writable(ReportOptions(report_dir=workspace / name))

    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_port_that_replaces_the_report_dir_gains_nothing(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    options = ReportOptions(report_dir=workspace / "jobs" / "report")
    publish.check_writable(options)
    (workspace / "jobs" / "report").rmdir()
    (workspace / "jobs").rmdir()
    (workspace / "jobs").symlink_to(outside, target_is_directory=True)

    (problem,) = publish.write_reports(make_report(), 0, options)

    assert "symbolic link" in problem.message
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_dumps_are_not_kept_below_a_link(workspace: Path) -> None:
    from parity.commands import verify  # noqa: PLC0415 - not in every environment

    outside = workspace.parent / "outside"
    (outside / "report" / "dumps").mkdir(parents=True)
    (outside / "report" / "dumps" / "mine").touch()
    dumps = workspace / "from"
    dumps.mkdir()
    (dumps / "x").touch()
    (workspace / "jobs").symlink_to(outside, target_is_directory=True)

    (problem,) = verify._copy_dumps(dumps, workspace / "jobs" / "report" / "dumps")

    assert "symbolic link" in problem.message
    assert [path.name for path in (outside / "report" / "dumps").iterdir()] == ["mine"]


def test_a_plan_replaces_a_link_and_leaves_its_target(workspace: Path) -> None:
    precious = workspace.parent / "outside" / "precious"
    (workspace / "plan.json").symlink_to(precious)
    with pytest.raises(ConfigError, match="symbolic link"):
        publish.check_no_link(workspace / "plan.json")
    replace_file(workspace / "plan.json", b"{}")
    assert precious.read_text(encoding="utf-8") == "mine"
    assert (workspace / "plan.json").read_bytes() == b"{}"
