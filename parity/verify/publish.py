"""Publish a report: to its folder, and as GitHub's annotations, summary and outputs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from parity import github as parity_github
from parity.errors import ConfigError, ParityError, Problem
from parity.port.dump_folder import remove_tree
from parity.reports import github_annotations, markdown
from parity.reports import json as json_report
from parity.results import CaseResult, Report
from parity.store.disk import find_link, replace_file
from parity.text import sanitize
from parity.verify.options import ReportOptions

#: File name of each format, and the libraries that write it.
REPORT_FILES = {"json": "report.json", "junit": "junit.xml", "html": "report.html"}
_LIBRARIES = {"junit": ("junitparser",), "html": ("jinja2", "matplotlib")}


def check_writable(options: ReportOptions) -> None:
    """Check, before anything runs, that the reports can be written.

    Raises:
        ConfigError: ``missing-library``, ``report-dir``.
    """
    folder = options.report_dir
    if folder is None:
        return
    for report_format in options.report_formats:
        libraries = _LIBRARIES.get(report_format, ())
        if missing := " and ".join(name for name in libraries if find_spec(name) is None):
            hint = "pip install '.[reports]' in a clone of parity-action"
            message = f"--report-formats {report_format} needs {missing}: {hint}"
            raise ConfigError(Problem("missing-library", message))
    check_no_link(folder)
    _clear_folder(folder)


def check_no_link(path: Path, code: str = "report-dir", repo: Path | None = None) -> None:
    """Reject a path that is a link, or below one in the workspace: the repo may have put it there.

    ``repo`` is that under test, if it may be outside of the workspace.

    Raises:
        ConfigError: ``code``.
    """
    for root in (parity_github.get_workspace(), repo):
        if root is not None and (link := find_link(path, root)):
            raise ConfigError(_build_link_problem(link, code))


def _build_link_problem(link: Path, code: str = "report-dir") -> Problem:
    """Return the problem of a path to be written that is a link, or below one."""
    message = f"{sanitize(link.as_posix())} is a symbolic link; nothing is written through links"
    return Problem(code, message, None, ("remove the link, or name a path without links",))


def _clear_folder(folder: Path) -> None:
    """Remove an earlier run's files; reject a folder that no run has written."""
    if _is_present(folder / "dumps") and not any(
        _is_present(folder / name) for name in REPORT_FILES.values()
    ):
        message = (
            f"--report-dir {folder.as_posix()} has a folder 'dumps' but no report.json, so it is "
            "not an earlier report; name another folder"
        )
        raise ConfigError(Problem("report-dir", message))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An earlier verdict must not remain if this run ends without one.
        remove_tree(folder / "dumps")
        for name in REPORT_FILES.values():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        message = f"--report-dir {folder.as_posix()} cannot be created: {error.strerror}"
        raise ConfigError(Problem("report-dir", message)) from None


def _is_present(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # for example a name that is too long; creating the folder reports it
        return False


def write_reports(report: Report, code: int, options: ReportOptions) -> list[Problem]:
    """Write the reports, each independently of the others; never leave a partial file.

    Return ``report-dir`` problems: which cannot be written, and why.
    """
    folder = options.report_dir
    if folder is None:
        return []
    if link_problem := restore_folder(folder):
        return [link_problem]
    problems: list[Problem] = []
    failures: list[Exception] = []
    for report_format in options.report_formats:
        try:
            if report_format == "json":
                json_report.write_json(report, code, folder)
                continue
            if report_format == "junit":
                from parity.reports import junit

                text = junit.format_junit(report)
            else:
                from parity.reports import html

                text = html.render_html(report, code)
            data = text.encode("utf-8", "backslashreplace")
            replace_file(folder / REPORT_FILES[report_format], data)
        except OSError as error:
            message = f"{REPORT_FILES[report_format]} cannot be written: {error.strerror or error}"
            problems.append(Problem("report-dir", message))
        except Exception as fault:  # noqa: BLE001 - raised again when the others are written
            failures.append(fault)
    if failures:
        raise failures[0]
    return problems


def restore_folder(folder: Path) -> Problem | None:
    """Make the folder again if a port removed or replaced it; writing reports what fails.

    Nothing is made below a link, which is the problem that is returned.
    """
    link = find_link(folder, parity_github.get_workspace())
    if not link or link == folder.absolute():
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink(missing_ok=True)
                folder.mkdir(parents=True)
        link = find_link(folder, parity_github.get_workspace())
    return _build_link_problem(link) if link else None


@contextmanager
def fence_output() -> Iterator[None]:
    """On GitHub, stop the runner from obeying commands printed meanwhile."""
    opening, closing = parity_github.make_fence()
    _print_on_github([opening])
    try:
        yield
    finally:
        _print_on_github([closing])


def publish_report(
    report: Report,
    code: int,
    options: ReportOptions,
    *,
    drift: Sequence[str] = (),
    command: str = "",
    unwritten: Sequence[Problem] = (),
) -> None:
    """Print annotations, add the summary, set the outputs.

    Raises:
        ConfigError: ``unwritten`` names reports; raised after all else is published.
    """
    if parity_github.is_on_github():
        _print_on_github(github_annotations.format_annotations(report, options.annotations))

    def format_summary(room: int) -> str:
        form = options.summary
        return markdown.format_summary(report, code, form=form, max_bytes=room, drift=drift)

    _add_summary(options, format_summary)
    set_outputs({**_build_outputs(report, code, options), "command": command})
    if unwritten:
        error = ConfigError(*unwritten)
        publish_error(error, options)
        raise error


def publish_error(error: ParityError, options: ReportOptions) -> None:
    """Publish an error that ends the verb."""
    _print_on_github(github_annotations.format_error_annotations(error, options.annotations))
    _add_summary(options, lambda room: markdown.format_error(error, room))
    set_outputs({"conclusion": "error", "failure-kind": error.kind})


def _add_summary(options: ReportOptions, format_text: Callable[[int], str]) -> None:
    """Add to the step's summary the text that ``format_text`` returns for the bytes left."""
    with _warn_on_failure("the job's summary"):
        if options.summary != "false" and (room := parity_github.measure_summary_room()):
            parity_github.add_summary(format_text(room))


def set_outputs(values: Mapping[str, str]) -> None:
    """Hand values to later steps, if the runner's file is writable."""
    with _warn_on_failure("the step's outputs"):
        parity_github.set_outputs(values)


@contextmanager
def _warn_on_failure(what: str) -> Iterator[None]:
    """Turn an OSError of the runner's own files into a warning; the verdict does not change."""
    try:
        yield
    except OSError as error:
        why = sanitize(error.strerror or str(error))
        code, message = "runner-file", f"{what} cannot be written: {why}; the verdict is unchanged"
        with suppress(OSError):  # no reader, or a full disk
            print(f"warning[{code}] {message}", file=sys.stderr)  # noqa: T201 - this is what prints
        command = parity_github.format_command("warning", message, title=f"parity: {code}")
        _print_on_github([command])


def _print_on_github(lines: Iterable[str]) -> None:
    if parity_github.is_on_github():
        for line in lines:
            print(line, flush=True)  # noqa: T201 - this is what prints


def _build_outputs(report: Report, code: int, options: ReportOptions) -> dict[str, str]:
    cases = report.cases
    verdicts = [case.verdict for case in cases]
    kind = report.failure_kind or "mismatch"
    paths = {}
    if options.report_dir:
        folder = options.report_dir.resolve()
        files = {f"report-{form}": folder / name for form, name in REPORT_FILES.items()}
        paths = {"report-dir": folder} | {k: file for k, file in files.items() if file.is_file()}
    return {
        "conclusion": ("failure" if kind == "mismatch" else "error") if code else "success",
        "failure-kind": kind if code else "",
        "total": str(len(cases)),
        "passed": str(verdicts.count("pass")),
        "failed": str(verdicts.count("fail") + verdicts.count("error")),
        "warnings": str(sum(f.level == "warning" for _, f in report.collect_findings())),
        "worst-case": _find_worst_case(cases),
        "lock-sha256": report.lock_sha256,
        **{name: path.as_posix() for name, path in paths.items()},
    }


def _find_worst_case(cases: Sequence[CaseResult]) -> str:
    """Return the case furthest outside its tolerance, or nearest to it if all are within."""

    def rank(case: CaseResult) -> tuple[bool, float]:
        margin = -1.0 if case.margin is None else case.margin
        return bool(case.errors), math.inf if math.isnan(margin) else margin

    candidates = [case for case in cases if case.errors or case.margin is not None]
    return max(candidates, key=rank).name if candidates else ""
