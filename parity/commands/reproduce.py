"""``reproduce``: pack a case for the port's maintainer: files, values, program, a ready report."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from parity.bundle.layout import list_parts
from parity.checkpoints.hexdump import find_spans, format_hex
from parity.commands import show
from parity.errors import ConfigError, ParityError, Problem
from parity.lab import resolve_hook
from parity.port import output
from parity.port.dump_folder import open_temporary_folder
from parity.port.run import DumpResult
from parity.reports import reproduction
from parity.reports.console import RunConsole
from parity.reports.reproduction import Reproduction
from parity.results import CaseResult, Finding
from parity.suites.base import Case, Dump
from parity.suites.tensor_values import format_value
from parity.tensors.folder import list_tensors
from parity.text import format_count, sanitize_message
from parity.verify import fixture_aliases, publish
from parity.verify.environment import collect_environment
from parity.verify.evaluate import CaseEvaluator
from parity.verify.options import VerifyOptions, declare
from parity.verify.prepare import PreparedBundle
from parity.verify.standalone import StandaloneProgram

#: Limits of the pack: tensors with values, lines of each, bytes of a tensor and of a file in hex.
_MAX_TENSORS, _MAX_LINES, _MAX_BYTES, _MAX_FILE_BYTES = 20, 70, 512, 2**16
_MAX_KEPT_BYTES = 2**26  # Largest file of the dump that is packed, in bytes
#: Folder of an aliased checkpoint.
_ALIAS_FOLDER = re.compile(r"[^\s'\"]*parity-fixtures-[^/\\\s]+[/\\][^/\\\s]+[/\\]")


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(VerifyOptions):
    """The command line of ``reproduce``; ``cases`` is one glob, ``out`` a new or empty folder."""

    cases: Sequence[str] = declare("BUNDLE/CASE", "the case", nargs=1)
    out: Path = declare("--out DIR", "a new or empty folder", required=True)
    dumps: Path | None = declare(*show.READ_DUMP)


def reproduce(options: ReproduceOptions, console: RunConsole) -> int:
    """Run the case and write the folder; return 0 whatever the port did.

    Raises:
        ConfigError: No such case, or a folder that is not empty.
        DumpError: The port could not be built or run.
    """
    check_out(options.out)
    prepared, case = show.find_case(options, console)
    name = f"{prepared.bundle.id}/{case.id}"
    with open_temporary_folder() as folder:
        dump_run, port = show.make_dump(prepared, case, options, console, folder / "dumps")
        draft = folder / "draft"
        case_run = CaseRun(prepared, case, dump_run, port)
        ending, title = write_draft(draft, case_run, options.repo, _format_command(options, name))
        copy_draft(draft, options.out)
    console.print_line(sanitize_message(f"{name}: {ending}; packed in {options.out.as_posix()}"))
    console.print_line(f"title of an issue: {title}")
    return 0


def check_out(out: Path) -> None:
    """Raise a ``ConfigError`` for a folder that is not new or empty."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        message = f"--out {sanitize_message(out.as_posix())} already exists; name a new folder"
        raise ConfigError(Problem("out-not-empty", message))
    publish.check_no_link(out)


def copy_draft(draft: Path, out: Path) -> None:
    """Copy the folder; raise a ``ConfigError`` if ``out`` cannot be written."""
    try:
        shutil.copytree(draft, out, dirs_exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        message = f"--out {sanitize_message(out.as_posix())} cannot be written: {reason}"
        raise ConfigError(Problem("report-dir", message)) from None


@dataclass(frozen=True)
class CaseRun:
    """A case and its run."""

    prepared: PreparedBundle
    case: Case
    dump_run: DumpResult
    port: Mapping[str, str]

    @cached_property
    def result(self) -> CaseResult:
        """The result of the case alone, without the lockfile's known failures."""
        evaluator = CaseEvaluator(self.prepared, lambda _case, _control: "")
        evaluator.add(self.case, self.dump_run)
        result = evaluator.build_result(self.case)
        return replace(result, findings=tuple(map(self._remove_places, result.findings)))

    def _remove_places(self, finding: Finding) -> Finding:
        """Return ``finding`` without our own paths."""
        details = tuple(self.replace_paths(line) for line in finding.details)
        return replace(
            finding, message=self.replace_paths(finding.message), details=details, where=None
        )

    def replace_paths(self, text: str) -> str:
        """Return ``text`` with our folders replaced by their names in the pack."""
        text = _ALIAS_FOLDER.sub("./", text)
        for folder, name in ((self.dump_run.folder, "obtained"), (self.case.folder, ".")):
            text = text.replace(str(folder.resolve()), name).replace(str(folder), name)
        return text


def write_draft(draft: Path, case_run: CaseRun, repo: Path, repeat: str) -> tuple[str, str]:
    """Fill ``draft``; return the case's outcome in one word, and a title for an issue."""
    prepared, case, dump_run = case_run.prepared, case_run.case, case_run.dump_run
    draft.mkdir()
    checkpoint = case.placeholders.get("checkpoint")
    packed = _copy_checkpoint(draft, prepared, case, Path(checkpoint)) if checkpoint else None
    if packed is None:
        shutil.copytree(case.folder, draft / "case", copy_function=shutil.copyfile)
    extra_files = list(_copy_extra_files(draft / "files", prepared))
    _copy_reference(draft, prepared, case)
    _copy_dump(dump_run.folder, draft / "obtained")
    values = list(_format_values(prepared, case, dump_run, case_run.result))
    _write_lines(draft / "values.txt", values)
    call = list(_format_call(case)) if packed is None else []
    if call:
        _write_lines(draft / "call.txt", call)
    data = packed.read_bytes() if packed else b""
    if packed:
        _write_lines(draft / "bytes.txt", format_hex(data[:_MAX_FILE_BYTES]))
    program = StandaloneProgram(prepared, case, repo, packed.name if packed else "")
    commands = [*program.format_exports(), *program.copy(draft, dump_run.folder)]
    start = ["#!/bin/sh", "set -eu", 'cd "$(dirname "$0")"', "mkdir -p obtained-again"]
    _write_lines(draft / "run.sh", [*start, *commands])
    contents = Reproduction(
        case=f"{prepared.bundle.id}/{case.id}",
        result=case_run.result,
        why=case.why,
        rule=getattr(case.detail, "rule", ""),
        checkpoint=packed.name if packed else "",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        bundle_sha256=prepared.bundle.locked.sha256 if prepared.bundle.locked else "",
        port=case_run.port,
        subject=program.find_crates(),
        run_commands=commands,
        repeat_command=repeat,
        values=values,
        stored_bytes=list(_format_stored_bytes(packed)) if packed else [],
        output=[
            case_run.replace_paths(line)
            for line in output.select_last_lines(f"{dump_run.stdout}\n{dump_run.stderr}")
        ],
        facts=collect_environment(),
        extra_files=extra_files,
        call=call,
    )
    _write_lines(draft / "REPORT.md", [reproduction.format_reproduction(contents)])
    ending = case_run.result.outcome or case_run.result.verdict
    return ending, reproduction.format_plain_title(contents)


def _format_command(options: ReproduceOptions, name: str) -> str:
    """Return the command that packs the case ``name`` again."""
    args = ["reproduce", name, *options.format_place()]
    return shlex.join(["python", "-m", "parity", *args, "--out", "NEW-FOLDER"])


def _copy_checkpoint(draft: Path, prepared: PreparedBundle, case: Case, checkpoint: Path) -> Path:
    """Copy the checkpoint and its other files, under the name that the port's example opens."""
    packed = draft / checkpoint.name
    with tempfile.TemporaryDirectory(prefix="parity-fixtures-") as alias_folder:
        placeholders = fixture_aliases.build_placeholders(prepared.bundle, case, Path(alias_folder))
        if placeholders:
            packed = draft / Path(placeholders["checkpoint"]).name
        originals = (part for part in list_parts(checkpoint) if part.is_file())
        for path in Path(placeholders["fixture_dir"]).iterdir() if placeholders else originals:
            shutil.copyfile(path, draft / path.name)
    return packed


def _copy_extra_files(folder: Path, prepared: PreparedBundle) -> Iterator[str]:
    """Copy the extra files, except huge ones; yield a line about each."""
    for name, extra in prepared.bundle.extra_files.items():
        file = prepared.files[extra.path]
        size = file.stat().st_size
        line = f"files/{extra.path}: {name}, from {extra.source}, {format_count(size, 'bytes')}"
        if prepared.bundle.locked:
            line += f", sha256 {prepared.bundle.locked.extra[name].sha256}"
        if size <= _MAX_KEPT_BYTES:
            (folder / extra.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / extra.path)
        else:
            line += "; too large for this folder, so put it there"
        yield line


def _copy_reference(draft: Path, prepared: PreparedBundle, case: Case) -> None:
    """Copy the reference, which may be the input, too; move a folder that is copied already."""
    reference = _find_reference(prepared, case)
    if reference is None:
        return
    if reference.is_relative_to(case.folder) and reference != case.folder:
        copied = draft / "case" / reference.relative_to(case.folder)
        reference = copied if copied.exists() else reference
    expected = draft / "expected"
    if reference.is_file():
        expected.mkdir()
        expected /= reference.name
    if reference.is_file():
        shutil.copyfile(reference, expected)
    elif reference.is_relative_to(draft):
        reference.rename(expected)
    else:
        shutil.copytree(reference, expected, copy_function=shutil.copyfile)


def _find_reference(prepared: PreparedBundle, case: Case) -> Path | None:
    reference = prepared.suite.reference_path(case)
    return reference if reference is not None and reference.exists() else None


def _copy_dump(folder: Path, kept: Path) -> None:
    """Copy the regular files of a dump, except huge ones."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_KEPT_BYTES:
            target = kept / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _format_values(
    prepared: PreparedBundle, case: Case, dump_run: DumpResult, result: CaseResult
) -> Iterator[str]:
    """Yield both sides of the tensors, those named by findings first."""
    reference = _find_reference(prepared, case)
    names = [] if reference is None else sorted(list_tensors(reference).tensors)
    mentioned = [f.tensor for f in result.findings if f.tensor in names]
    ordered = list(dict.fromkeys([*mentioned, *names]))
    for name in ordered[:_MAX_TENSORS]:
        yield f"{sanitize_message(name)}"
        yield from (f"  {line}" for line in _format_view(prepared, case, dump_run, str(name)))
        yield ""
    if len(ordered) > _MAX_TENSORS:
        yield f"and {len(ordered) - _MAX_TENSORS:,} more tensors"


def _format_call(case: Case) -> Iterator[str]:
    """Yield the case's own words, and the values of its inputs, those of large ones in part."""
    words = getattr(case.detail, "words", {})
    yield from (f"{name}: {text}" for name, text in words.items())
    for place in getattr(case.detail, "inputs", ()) if words else ():
        for name, tensor in list_tensors(place).tensors.items():
            values = tensor.dtype.decode(tensor.read_array().ravel()[:_MAX_LINES])
            texts = [format_value(value, tensor.dtype) for value in values]
            more = ", …" if tensor.count > len(texts) else ""
            yield f"{name}: {tensor.dtype.name} {list(tensor.shape)}: {', '.join(texts)}{more}"


def _format_view(
    prepared: PreparedBundle, case: Case, dump_run: DumpResult, name: str
) -> list[str]:
    try:
        view = resolve_hook(prepared.suite.view)(case, Dump(folder=dump_run.folder), name)
        lines = show.format_view(view, (), prepared.bounds[case.id])
        return [sanitize_message(text) for _, text in islice(lines, _MAX_LINES)]
    except ParityError as error:
        return [sanitize_message(problem.message) for problem in error.problems]


def _format_stored_bytes(checkpoint: Path) -> Iterator[str]:
    """Yield the bytes of each tensor or storage in the file."""
    byte_spans = find_spans(checkpoint)
    data = checkpoint.read_bytes() if byte_spans else b""
    for name, (first, last) in islice(byte_spans.items(), _MAX_TENSORS):
        yield f"{sanitize_message(name)}: {last - first:,} bytes from {first:,}"
        yield from format_hex(data[first : min(last, first + _MAX_BYTES)], first)
        if last - first > _MAX_BYTES:
            yield f"and {last - first - _MAX_BYTES:,} bytes more"


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
