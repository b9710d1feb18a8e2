"""Where a run's report goes: the report's folder, and GitHub's annotations, summary and outputs."""

from __future__ import annotations

import math
import shutil
import sys
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from parity import runner
from parity.errors import ConfigError, ParityError, Problem
from parity.reports import github, markdown
from parity.reports import json as json_report
from parity.safetext import safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from parity.commands.options import ReportOptions
    from parity.results import CaseResult, Report

#: What each format's file is called, and the libraries that write it.
FILES = {"json": "report.json", "junit": "junit.xml", "html": "report.html"}
_SUMMARY = "the job's summary"
_LIBRARIES = {"junit": ("junitparser",), "html": ("jinja2", "matplotlib")}


def hold(options: ReportOptions) -> None:
    """Hold, before anything runs, that the reports asked for can be written.

    Raises:
        ConfigError: ``missing-library``, ``report-dir``.
    """
    folder = options.report_dir
    if folder is None:
        return
    for form in options.report_formats:
        if absent := [name for name in _LIBRARIES.get(form, ()) if find_spec(name) is None]:
            message = (
                f"--report-formats {form} needs {' and '.join(absent)}; "
                'install "parity-action[reports]"'
            )
            raise ConfigError(Problem("missing-library", message))
    _hold_folder(folder)


def _hold_folder(folder: Path) -> None:
    """Refuse to clear a folder that no earlier run of ours has written."""
    if _exists(folder / "dumps") and not any(_exists(folder / name) for name in FILES.values()):
        message = (
            f"--report-dir {folder.as_posix()} has a folder 'dumps' but no report.json, so it is "
            "not an earlier report; name another folder"
        )
        raise ConfigError(Problem("report-dir", message))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An earlier run's verdict must not stand where this one ends without any.
        shutil.rmtree(folder / "dumps", ignore_errors=True)
        for name in FILES.values():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        message = f"--report-dir {folder.as_posix()} cannot be made: {error.strerror}"
        raise ConfigError(Problem("report-dir", message)) from None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, say; making the folder will tell
        return False


def write(report: Report, code: int, options: ReportOptions) -> list[Problem]:
    """Write the reports asked for, each whatever becomes of the others; a half one never stays.

    Returns:
        ``report-dir``: Which cannot be written, and why.
    """
    folder = options.report_dir
    if folder is None:
        return []
    problems: list[Problem] = []
    faults: list[Exception] = []
    for form in options.report_formats:
        try:
            _write(form, report, code, folder)
        except OSError as error:
            message = f"{FILES[form]} cannot be written: {error.strerror or error}"
            problems.append(Problem("report-dir", message))
        except Exception as fault:  # noqa: BLE001 - raised again when the others are written
            faults.append(fault)
    if faults:
        raise faults[0]
    return problems


def _write(form: str, report: Report, code: int, folder: Path) -> None:
    draft = folder / f"{FILES[form]}.part"
    try:
        if form == "json":
            json_report.write(report, code, folder)
            return
        text = _text(form, report, code).encode("utf-8", "backslashreplace")
        draft.write_bytes(text)
        draft.replace(folder / FILES[form])
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _text(form: str, report: Report, code: int) -> str:
    if form == "junit":
        from parity.reports import junit

        return junit.text(report)
    from parity.reports import html

    return html.text(report, code)


@contextmanager
def fenced() -> Iterator[None]:
    """On GitHub, nothing that is printed meanwhile is a command, whoever wrote it."""
    if not runner.on_github():
        yield
        return
    opening, closing = runner.fence()
    _say(opening)
    try:
        yield
    finally:
        _say(closing)


def tell(
    report: Report,
    code: int,
    options: ReportOptions,
    *,
    drift: Sequence[str] = (),
    command: str = "",
    unwritten: Sequence[Problem] = (),
) -> None:
    """Annotations, summary and outputs, all before the process ends.

    Raises:
        ConfigError: The reports in ``unwritten`` are owed, though all else is told.
    """
    if runner.on_github():
        for line in github.lines(report, options.annotations):
            _say(line)
    with _spared(_SUMMARY):
        if options.summary != "false" and (room := runner.summary_room()):
            text = markdown.summary(report, code, form=options.summary, room=room, drift=drift)
            runner.add_summary(text)
    set_outputs({**_outputs(report, code, options), "command": command})
    if unwritten:
        error = ConfigError(*unwritten)
        tell_error(error, options)
        raise error


def tell_error(error: ParityError, options: ReportOptions) -> None:
    """The same for an error that ends the verb."""
    if runner.on_github():
        for line in github.problems(error, options.annotations):
            _say(line)
    with _spared(_SUMMARY):
        if options.summary != "false" and (room := runner.summary_room()):
            runner.add_summary(markdown.of_error(error, room))
    set_outputs({"conclusion": "error", "failure-kind": error.kind})


def set_outputs(values: Mapping[str, str]) -> None:
    """Hand values to later steps, where the runner's file takes them."""
    with _spared("the step's outputs"):
        runner.set_outputs(values)


@contextmanager
def _spared(what: str) -> Iterator[None]:
    """The runner's own files are no file of the user's: losing one is told, and decides nothing."""
    try:
        yield
    except OSError as error:
        why = safe(error.strerror or str(error))
        lost = Problem("runner-file", f"{what} cannot be written: {why}; the verdict stands")
        text = f"warning[{lost.code}] {lost.message}"
        print(text, file=sys.stderr)  # noqa: T201 - after the end of all that is told
        if runner.on_github():
            _say(runner.command("warning", lost.message, title=f"parity: {lost.code}"))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - commands go to stdout


def _outputs(report: Report, code: int, options: ReportOptions) -> dict[str, str]:
    cases = report.cases
    verdicts = [case.verdict for case in cases]
    kind = report.failure_kind
    wrong = kind in ("mismatch", None)
    return {
        "conclusion": ("failure" if wrong else "error") if code else "success",
        "failure-kind": (kind or "mismatch") if code else "",
        "total": str(len(cases)),
        "passed": str(verdicts.count("pass")),
        "failed": str(verdicts.count("fail") + verdicts.count("error")),
        "warnings": str(sum(f.level == "warning" for _, f in report.all_findings())),
        "worst-case": _worst(cases),
        "lock-sha256": report.lock_sha256,
        **_paths(options),
    }


def _paths(options: ReportOptions) -> dict[str, str]:
    folder = options.report_dir
    if folder is None:
        return {}
    there = {form: folder.resolve() / name for form, name in FILES.items()}
    found = {f"report-{form}": p.as_posix() for form, p in there.items() if p.is_file()}
    return {"report-dir": folder.resolve().as_posix(), **found}


def _worst(cases: Sequence[CaseResult]) -> str:
    """The case furthest past its bound, or nearest to it where all hold."""

    def rank(case: CaseResult) -> tuple[bool, float]:
        margin = -1.0 if case.margin is None else case.margin
        return bool(case.errors), math.inf if math.isnan(margin) else margin

    ranked = [case for case in cases if case.errors or case.margin is not None]
    return max(ranked, key=rank).name if ranked else ""
