"""Run the reference readers and the port on mutants, and judge what the port made of each.

The mutants become a bundle like the zoo: the readers' tensors are its references, and the port is
run and compared as ``verify`` does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from parity.bundle.tolerances import tighten
from parity.errors import DumpError, Problem, ReferenceSuspectError
from parity.lab import readers
from parity.lab.fuzz.agreement import ABSTAINS, DUMP, READERS, REFERENCE, Agreement, agree
from parity.lab.fuzz.mutant import Mutant
from parity.lab.libraries import find_version
from parity.port import output
from parity.port.run import DumpResult
from parity.results import CaseResult
from parity.suites.base import Case
from parity.suites.tensors.rules import read_references
from parity.tensors.folder import list_tensors
from parity.text import sanitize_message, truncate
from parity.verify import execute
from parity.verify.evaluate import CaseEvaluator
from parity.verify.execute import RunContext
from parity.verify.prepare import PreparedBundle, build_options, read_cases

#: Words that are findings whatever the readers do.
ENDS = ("crashed", "panicked", "out-of-memory", "hung")
_WORDS = 5  # Of a rejection: bytes of the file may follow them
_CONTROL = "control"
_CODE = re.compile(r"\[([a-z-]+)\]")
_REGISTRY = re.compile(r".*/(?:registry/src|checkouts)/[^/]+/")


@dataclass(frozen=True)
class Trial:
    """A mutant, what the readers and the port made of it, and in which place."""

    mutant: Mutant
    prepared: PreparedBundle
    case: Case
    agreement: Agreement
    reason: str  # Of a rejection: the reader and its words
    result: CaseResult
    dump_run: DumpResult
    loaded: bool  # The port ended with 0 and wrote a tensor

    @property
    def word(self) -> str:
        """The port's outcome where it is a fault; else empty."""
        word = self.result.outcome
        by_agreement = {"loaded": ("wrong", "partial"), "rejected": ("accepted",)}
        is_fault = word in (*ENDS, *by_agreement.get(self.agreement, ()))
        return word if is_fault else ""

    @property
    def cause(self) -> str:
        """The place of a panic, the last words, the code of a finding, or the reader's words.

        Numbers and quoted texts, which differ between mutants of one fault, are left out.
        """
        if self.word == "accepted":
            return " ".join(normalize(self.reason).split()[:_WORDS])
        if self.word in ("wrong", "partial"):
            codes = _CODE.findall(self.result.findings[0].message)
            return codes[-1] if codes else ""
        if panic := output.find_panic(self.dump_run.stderr):
            return f"{_REGISTRY.sub('', panic.file)}:{panic.line}"
        if self.word == "hung":
            return ""
        ended = self.dump_run.process_result
        signal = ended.signal if ended and ended.signal else ""
        return f"{signal} {normalize(output.find_reason(self.dump_run.stderr))}".strip()

    @property
    def key(self) -> tuple[str, str]:
        """The word and the cause, which a smaller mutant of the same fault has, too."""
        return self.word, self.cause


def normalize(text: str) -> str:
    """Return a message without the numbers and texts of the file that it is about."""
    text = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`", "…", sanitize_message(text))
    text = re.sub(r"(: .*: )\S+$", r"\1…", text)  # a text of the file without quotes
    return truncate(re.sub(r"\b(0x[0-9a-f]+|\d[\d,._]*)", "N", text), 100)


@dataclass
class Lab:
    """The port and the readers, ready to be given mutants."""

    prepared: PreparedBundle
    context: RunContext
    #: By group, a mutant without edits that the readers load, and its tensors. It ends each
    #: reader's list of files: a reader that no longer loads it is broken.
    controls: dict[str, tuple[Mutant, bytes]] = field(default_factory=dict)
    port: dict[str, str] = field(default_factory=dict)
    #: By format and name; their processes run until `close`.
    running: dict[tuple[str, str], readers.Reader] = field(default_factory=dict)
    _builds: dict[Any, Any] = field(default_factory=dict)

    def close(self) -> None:
        """End the readers' processes."""
        for reader in self.running.values():
            reader.close()

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """By unmutated case, the names of tensors that a port must open, which else reads none."""
        details = {case.id: case.detail for case in self.prepared.cases}
        return {
            name: list(one.names if one.reference is None else read_references(one))
            for name, one in details.items()
        }

    def try_mutants(self, mutants: Sequence[Mutant], folder: Path) -> list[Trial]:
        """Give mutants to the readers and to the port; keep all files below ``folder``.

        Raises:
            DumpError: The port cannot be started.
            ReferenceSuspectError: A reader does not start, or no longer loads its control.
        """
        tree = folder / "tree"
        for mutant in mutants:
            (tree / mutant.id).mkdir(parents=True)
            _find_checkpoint(tree, mutant).write_bytes(mutant.content)
        agreements = self._ask_readers(mutants, tree, folder / "readers")
        cases = {mutant.id: self._describe(mutant, *agreements[mutant.id]) for mutant in mutants}
        (tree / "parity.json").write_text(json.dumps({"schema": 2, "cases": cases}))
        return self._run_port(mutants, tree, folder, agreements)

    def _ask_readers(
        self, mutants: Sequence[Mutant], tree: Path, out: Path
    ) -> dict[str, tuple[Agreement, str, Any]]:
        """Return of each mutant whether it is loaded, why not, and the tolerance to compare with.

        The tensors of those that all readers load alike become their references.
        """
        groups = sorted({mutant.base.group for mutant in mutants})
        with ThreadPoolExecutor() as pool:
            calls = {
                (group, reader): pool.submit(self._run_reader, reader, group, mutants, tree, out)
                for group in groups
                for reader in READERS[group]
            }
            results = {key: call.result() for key, call in calls.items()}
        return {
            mutant.id: agree(
                {name: results[mutant.base.group, name] for name in READERS[mutant.base.group]},
                mutant,
                tree,
                out,
            )
            for mutant in mutants
        }

    def _run_reader(
        self, reader: str, group: str, mutants: Sequence[Mutant], tree: Path, out: Path
    ) -> dict[str, readers.ReaderResult]:
        own_out = out / group / reader
        own_out.mkdir(parents=True)
        files = {m.id: _find_checkpoint(tree, m) for m in mutants if m.base.group == group}
        control = self.controls.get(group)
        if control:
            files[_CONTROL] = own_out / f"{_CONTROL}.{group}"
            files[_CONTROL].write_bytes(control[0].content)
        try:
            running = self.running.setdefault((group, reader), readers.Reader(reader))
            results = running.read_files(files, own_out)
        except RuntimeError as error:
            raise ReferenceSuspectError(Problem("audit-crashed", str(error))) from error
        if missing := files.keys() - results.keys():
            raise _make_reader_error(reader, f"says nothing of {len(missing)} files")
        if control:
            one = results[_CONTROL]
            # Another than the first may order tensors otherwise, or not read the form.
            is_loaded = one.outcome == "loaded" or one.reason.startswith(ABSTAINS)
            if reader == READERS[group][0]:
                is_loaded = _read_dump(own_out / _CONTROL) == control[1]
            if not is_loaded:
                what = f"no longer loads {control[0].base.id}: {one.reason or one.outcome}"
                raise _make_reader_error(reader, what)
        return results

    def _describe(
        self, mutant: Mutant, agreement: Agreement, reason: str, tolerance: Any
    ) -> dict[str, Any]:
        """Describe a case as `parity.json` does."""
        own = READERS[mutant.base.group]
        names = ", ".join(
            f"{name} {find_version(readers.LIBRARIES[name]) or ''}".strip() for name in own
        )
        description = {
            "group": mutant.base.group,
            "why": truncate(sanitize_message(mutant.describe()), 400),
            "checkpoint": f"checkpoint.{mutant.base.group}",
            "expect": "refuse",
            "names": self.names[mutant.base.id],
        }
        if agreement == "loaded":
            rule = f"{names} loads it"
            description |= {"expect": "either", "reference": REFERENCE, **tolerance}
        elif agreement == "rejected":
            rule = f"{names} rejects it: {reason}"
        else:
            rule = f"a program must end by itself, whatever the file ({names}: {reason})"
        return {**description, "rule": sanitize_message(rule)}

    def _run_port(
        self, mutants: Sequence[Mutant], tree: Path, folder: Path, agreements: Mapping[str, Any]
    ) -> list[Trial]:
        own = self._prepare(mutants, tree)
        evaluator = CaseEvaluator(own, lambda _case, _control: "")
        runs: dict[str, DumpResult] = {}

        def add(case: Case, dump_run: DumpResult) -> None:
            runs[case.id] = dump_run
            evaluator.add(case, dump_run)

        context = replace(self.context, outputs=(folder / "dumps").resolve())
        self.port, _ = execute.run_dumps(own, add, context, {}, self._builds)
        trials = []
        for mutant, case in zip(mutants, own.cases, strict=True):
            run = runs[case.id]
            if run.process_result is None:
                raise DumpError(*(Problem(f.code, f.message, f.where) for f in run.findings))
            agreement, reason, _ = agreements[mutant.id]
            loaded = run.process_result.exit_code == 0 and bool(list_tensors(run.folder).tensors)
            result = evaluator.build_result(case)
            trials.append(Trial(mutant, own, case, agreement, reason, result, run, loaded))
        return trials

    def _prepare(self, mutants: Sequence[Mutant], tree: Path) -> PreparedBundle:
        """Return the bundle of the mutants, with the program of each one's base."""
        old = self.prepared.bundle
        dumps = {m.id: old.case_dumps[m.base.id] for m in mutants if m.base.id in old.case_dumps}
        bundle = replace(old, bounds={}, known_failures={}, case_dumps=dumps)
        options = build_options(replace(bundle, manifest=""), self.context.options)
        cases = read_cases(bundle, self.prepared.suite, tree, options)
        return replace(
            self.prepared,
            bundle=bundle,
            tree=tree,
            cases=cases,
            all_cases=cases,
            bounds={case.id: tighten(case.tolerances, {})[0] for case in cases},
            claimed=None,
            unclaimed=(),
        )


def _find_checkpoint(tree: Path, mutant: Mutant) -> Path:
    return tree / mutant.id / f"checkpoint.{mutant.base.group}"


def _make_reader_error(reader: str, what: str) -> ReferenceSuspectError:
    return ReferenceSuspectError(Problem("reader-drift", f"the reference reader {reader} {what}"))


def _read_dump(folder: Path) -> bytes | None:
    path = folder / DUMP
    return path.read_bytes() if path.is_file() else None
