"""``reproduce``: one case packed for the port's maintainer: file, values, bytes, ready text."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from parity import dumps, said
from parity.codecs.files import tensors_in
from parity.codecs.parts import parts
from parity.commands import presenting, show
from parity.commands.environment import facts
from parity.commands.judge import Judge
from parity.commands.options import VerifyOptions
from parity.commands.sides import sides, state_folder
from parity.commands.stored_bytes import hex_lines, spans
from parity.errors import ConfigError, ParityError, Problem
from parity.reports import reproduction
from parity.reports.reproduction import Reproduction
from parity.reports.wording import shown
from parity.runner import as_typed
from parity.suites.base import Dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.commands.options import Options
    from parity.commands.plan import Planned
    from parity.dumps import Dumped
    from parity.reports.console import Teller
    from parity.results import CaseResult, Finding
    from parity.suites.base import Case

#: Tensors whose values are told, lines of each, and bytes of a tensor or a file in hex.
_TENSORS, _LINES, _BYTES, _FILE_BYTES = 20, 70, 512, 2**16
#: Bytes of a file of the dump that is taken along.
_KEPT = 2**26
#: Where a presented checkpoint lay.
_FIXTURES = re.compile(r"[^\s'\"]*parity-fixtures-[^/\\\s]+[/\\][^/\\\s]+[/\\]")


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """The command line of ``reproduce``.

    Attributes:
        case: ``bundle/case``, or a case's name where no other bundle has one of it.
        out: A new folder, or an empty one.
        dumps: Folder of dumps that lie ready; without it the case is run.
    """

    options: Options
    case: str
    out: Path
    dumps: Path | None = None
    toolchain: str = ""


def reproduce(options: ReproduceOptions, teller: Teller) -> int:
    """Run the case once more and write the folder; returns 0 whatever the port did.

    Raises:
        ConfigError: No such case, one without a checkpoint, or a folder that holds something.
        DumpError: The port does not build or run at all.
    """
    _hold_out(options.out)
    verify = VerifyOptions(
        **options.options.__dict__,
        cases=(options.case,),
        dumps=options.dumps,
        toolchain=options.toolchain,
    )
    planned, case = show.one_case(verify, teller)
    checkpoint = _checkpoint(planned, case)
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        dumped, port = show.made(planned, case, verify, teller, Path(folder, "dumps"))
        draft = Path(folder, "draft")
        made = _Made(planned, case, dumped, port)
        told = _written(draft, made, checkpoint, _again(options, planned, case))
        _place(draft, options.out)
    where = shown(options.out.as_posix())
    teller.line(f"{shown(planned.bundle.id)}/{shown(case.id)}: {told}; packed in {where}")
    return 0


def _hold_out(out: Path) -> None:
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        message = f"--out {shown(out.as_posix())} is there already; name a new folder"
        raise ConfigError(Problem("out-not-empty", message))


def _checkpoint(planned: Planned, case: Case) -> Path:
    path = case.words.get("checkpoint")
    if path is None:
        message = (
            f"{planned.bundle.id}/{case.id} has no checkpoint to pack; `parity show` prints the "
            "two sides of what it compares"
        )
        raise ConfigError(Problem("no-checkpoint", message))
    return Path(path)


def _place(draft: Path, out: Path) -> None:
    try:
        shutil.copytree(draft, out, dirs_exist_ok=True)
    except OSError as error:
        message = f"--out {shown(out.as_posix())} cannot be written: {error.strerror or error}"
        raise ConfigError(Problem("report-dir", message)) from None


@dataclass(frozen=True)
class _Made:
    """A case, and the run of it."""

    planned: Planned
    case: Case
    dumped: Dumped
    port: Mapping[str, str]

    @cached_property
    def result(self) -> CaseResult:
        """The case by itself; what the lockfile forgives is what a maintainer wants to see."""
        judge = Judge(self.planned, lambda _case, _control: "")
        judge.add(self.case, self.dumped)
        found = judge.alone(self.case)
        return replace(found, findings=tuple(map(self._of_the_port, found.findings)))

    def _of_the_port(self, finding: Finding) -> Finding:
        """``finding`` without places that are nothing to the port's maintainer."""
        details = tuple(self.tidy(line) for line in finding.details)
        return replace(finding, message=self.tidy(finding.message), details=details, where=None)

    def tidy(self, text: str) -> str:
        """``text`` with our folders called by the names that they have in what is packed."""
        text = _FIXTURES.sub("./", text)
        for folder, name in ((self.dumped.folder, "obtained"), (self.case.folder, ".")):
            text = text.replace(str(folder.resolve()), name).replace(str(folder), name)
        return text


def _written(draft: Path, made: _Made, checkpoint: Path, again: str) -> str:
    """Fill ``draft``; returns how the case ended, in a word."""
    planned, case, dumped = made.planned, made.case, made.dumped
    own = _files(draft, planned, case, checkpoint)
    _keep(dumped.folder, draft / "obtained")
    data = own.read_bytes()
    values = list(_values(planned, case, dumped, made.result))
    _text(draft / "values.txt", values)
    _text(draft / "bytes.txt", hex_lines(data[:_FILE_BYTES]))
    found = Reproduction(
        case=f"{planned.bundle.id}/{case.id}",
        result=made.result,
        why=case.why,
        rule=getattr(case.detail, "rule", ""),
        checkpoint=own.name,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        bundle_sha256=planned.bundle.locked.sha256 if planned.bundle.locked else "",
        port=made.port,
        run=_run(planned, case, own.name),
        again=again,
        values=values,
        stored=list(_stored(own)),
        said=[made.tidy(line) for line in said.last(f"{dumped.stdout}\n{dumped.stderr}")],
        facts=facts(),
    )
    _text(draft / "REPORT.md", [reproduction.text(found)])
    return made.result.outcome or made.result.verdict


def _again(options: ReproduceOptions, planned: Planned, case: Case) -> str:
    """The line that packs the case once more."""
    words = ["python", "-m", "parity", "reproduce", f"{planned.bundle.id}/{case.id}"]
    typed, default = options.options.lockfile, options.options.repo / "fixtures.lock.yaml"
    if (repo := as_typed(options.options.repo)) != ".":
        words += ["--repo", repo]
    if typed != default:
        words += ["--lockfile", as_typed(typed)]
    return shlex.join([*words, "--out", "NEW-FOLDER"])


def _files(draft: Path, planned: Planned, case: Case, checkpoint: Path) -> Path:
    """The checkpoint, under the name that the port's example opens, and the references."""
    draft.mkdir()
    own = draft / checkpoint.name
    with tempfile.TemporaryDirectory(prefix="parity-fixtures-") as place:
        words = presenting.words(planned.bundle, case, Path(place))
        if words:
            own = draft / Path(words["checkpoint"]).name
        own_files = (part for part in parts(checkpoint) if part.is_file())
        for path in Path(words["fixture_dir"]).iterdir() if words else own_files:
            shutil.copyfile(path, draft / path.name)
    reference = _reference(planned, case)
    if reference is not None and reference.is_dir():
        shutil.copytree(reference, draft / "expected", copy_function=shutil.copyfile)
    elif reference is not None:
        (draft / "expected").mkdir()
        shutil.copyfile(reference, draft / "expected" / reference.name)
    return own


def _reference(planned: Planned, case: Case) -> Path | None:
    if planned.suite.name == "tensors":
        reference: Path | None = case.detail.reference
        return reference
    folder = state_folder(case)
    return folder if folder.is_dir() else None


def _keep(folder: Path, kept: Path) -> None:
    """The files of a dump; links and the like are left behind, and so is what is huge."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _KEPT:
            target = kept / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _values(planned: Planned, case: Case, dumped: Dumped, result: CaseResult) -> Iterator[str]:
    """Both sides of the tensors, those first that findings speak of."""
    names = _names(planned, case)
    told = [f.tensor for f in result.findings if f.tensor in names]
    ordered = list(dict.fromkeys([*told, *names]))
    for name in ordered[:_TENSORS]:
        yield f"{shown(name)}"
        yield from (f"  {line}" for line in _sides(planned, case, dumped, str(name)))
        yield ""
    if len(ordered) > _TENSORS:
        yield f"and {len(ordered) - _TENSORS:,} more tensors"


def _names(planned: Planned, case: Case) -> list[str]:
    reference = _reference(planned, case)
    return [] if reference is None else sorted(tensors_in(reference).tensors)


def _sides(planned: Planned, case: Case, dumped: Dumped, name: str) -> list[str]:
    try:
        both = sides(planned.suite.name, case, Dump(folder=dumped.folder), name)
        lines = show.lines(both, (), planned.bounds[case.id])
        return [shown(text) for _, text in islice(lines, _LINES)]
    except ParityError as error:
        return [shown(problem.message) for problem in error.problems]


def _stored(checkpoint: Path) -> Iterator[str]:
    """The bytes of each tensor or storage, as they lie in the file."""
    found = spans(checkpoint)
    data = checkpoint.read_bytes() if found else b""
    for name, (first, last) in islice(found.items(), _TENSORS):
        yield f"{shown(name)}: {last - first:,} bytes from {first:,}"
        yield from hex_lines(data[first : min(last, first + _BYTES)], first)
        if last - first > _BYTES:
            yield f"and {last - first - _BYTES:,} bytes more"


def _run(planned: Planned, case: Case, checkpoint: str) -> str:
    """The port's own program as one runs it in the folder: no parity-action is needed."""
    dump = planned.bundle.dump_of(case.id)
    here = {"checkpoint": checkpoint, "fixture_dir": ".", "output_dir": "obtained-again"}
    values = {**case.words, "case": case.id, "bundle_dir": ".", **here}
    words = list(dump.command or dump.args or planned.suite.args)
    expanded = dumps.expand(words, values)
    if dump.command is not None:
        return shlex.join(expanded)
    (example,) = dumps.expand([dump.example or ""], values)
    return shlex.join(["cargo", "run", "--release", "--example", example, "--", *expanded])


def _text(path: Path, lines: list[str]) -> None:
    path.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
