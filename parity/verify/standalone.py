"""A port's program as a stranger runs it: in the folder of ``reproduce``, with cargo alone."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from parity.bundle.layout import DAMAGES
from parity.lockfile import Dump
from parity.port.cargo.manifests import Package, list_packages
from parity.port.cargo.sources import MAX_FILE, copy_sources, find_subject
from parity.port.dump_folder import MAX_STATE, STATE_FILE, DumpFileError, read_file
from parity.port.run import expand_placeholders
from parity.suites.base import Case
from parity.verify.prepare import PreparedBundle


@dataclass(frozen=True)
class StandaloneProgram:
    """The port's program, as a stranger runs it in the folder, with cargo alone."""

    prepared: PreparedBundle
    case: Case
    repo: Path
    checkpoint: str

    @property
    def dump(self) -> Dump:
        """The entry of the case."""
        return self.prepared.bundle.find_dump(self.case.id)

    @cached_property
    def example(self) -> str:
        """Name of the cargo example; empty for a command."""
        return self._expand([self.dump.example or ""])[0]

    @cached_property
    def values(self) -> dict[str, str]:
        """Values of the placeholders; paths are below the folder in which the program runs."""
        folder = "." if self.checkpoint else "case"
        return {
            **self.case.placeholders,
            **({"checkpoint": self.checkpoint} if self.checkpoint else {}),
            **({"save_state": f"obtained-again/{STATE_FILE}"} if self.case.saves else {}),
            **({"load_state": STATE_FILE} if self.case.load_from else {}),
            "fixture_dir": folder,
            "output_dir": "obtained-again",
            "bundle_dir": folder,
            "case": self.case.id,
            "files_dir": "files",
        }

    def _expand(self, args: Sequence[str]) -> list[str]:
        return list(expand_placeholders(args, self.values))

    @cached_property
    def package(self) -> Package | None:
        """The package of the repo that has the example."""
        name = (self.dump.package or "").partition("@")[0]
        packages = list_packages(self.repo.resolve()) if name else []
        return next((package for package in packages if package.name == name), None)

    def find_crates(self) -> list[str]:
        """Return the crates under test, each as ``name version``; empty if unknown.

        A package with a library is the port itself; one without tests the crates that it uses. A
        command has the name of its program.
        """
        if self.dump.command:
            words = [Path(word).name for word in self.dump.command if word[:1] not in "-{"]
            return [self.dump.subject or " ".join(words)]
        if self.dump.crate:
            return [self.dump.crate.replace("@", " ")]
        if self.package is None:
            return []
        repo = self.repo.resolve()
        folder = repo / self.package.folder
        has_library = (folder / "src" / "lib.rs").is_file()
        subject = self.dump.subject or (self.package.name if has_library else None)
        return find_subject(folder, repo / self.package.cwd, subject)

    def _copy_state(self, dump: Path, draft: Path) -> None:
        """Copy into ``draft`` the state that the case loads, if any, of a run beside ``dump``."""
        if not self.case.load_from:
            return
        state = dump.with_name(self.case.load_from) / STATE_FILE
        with suppress(DumpFileError):  # the run that saves it failed
            data = DAMAGES.get(self.case.damage, bytes)(read_file(state, MAX_STATE))
            (draft / STATE_FILE).write_bytes(data)

    def copy(self, draft: Path, obtained: Path) -> list[str]:
        """Copy the program's source into ``draft``, and return the commands that run it there.

        The state that the case loads is copied too, from beside its dump ``obtained``.
        """
        self._copy_state(obtained, draft)
        dump = self.dump
        stated = self.prepared.suite.list_args(self.values, dump.command or dump.args)
        args = self._expand(stated)
        variables = zip(dump.run_env, self._expand(list(dump.run_env.values())), strict=True)
        runner = ["env", *(f"{name}={value}" for name, value in variables)] if dump.run_env else []
        if dump.command is not None:
            return [shlex.join([*runner, *self._copy_command(stated, args, draft / "program")])]
        words = ["--profile", dump.profile, "--example", self.example]
        words += ["--features", ",".join(dump.features)] if dump.features else []
        if dump.crate:
            name, _, version = dump.crate.partition("@")
            install = ["cargo", "install", name, "--version", version]
            install += ["--locked", "--root", "built"]
            return [
                shlex.join([*install, *words]),
                shlex.join([*runner, f"built/bin/{self.example}", *args]),
            ]
        if self.package is not None:
            repo = self.repo.resolve()
            folders = repo / self.package.folder, repo / self.package.cwd
            if copied := copy_sources(repo, *folders, draft / "program", self.example):
                manifest = (copied / "Cargo.toml").relative_to(draft).as_posix()
                words = ["--manifest-path", manifest, *words]
        if runner:  # cargo itself must not get these variables
            words = ["--config", f'target."cfg(all())".runner = {json.dumps(runner)}', *words]
        return [shlex.join(["cargo", "run", *words, "--", *args])]

    def _copy_command(self, stated: Sequence[str], args: list[str], target: Path) -> Iterator[str]:
        """Copy the files of the repo that a command names, and yield its words with their paths."""
        repo = self.repo.resolve()
        for typed, word in zip(stated, args, strict=True):
            file = Path(os.path.normpath(repo / self.dump.cwd / word))
            is_own = typed == word and file.is_file() and file.is_relative_to(repo)
            if not is_own:
                yield word
            elif file.is_symlink() or file.stat().st_size > MAX_FILE:
                yield file.name  # such as the interpreter of an environment
            else:
                copied = target / file.relative_to(repo)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copied)
                yield copied.relative_to(target.parent).as_posix()

    def format_exports(self) -> list[str]:
        """Return the commands of a shell that set the variables of the entry."""
        return [
            f"export {shlex.join([f'{name}={value}'])}" for name, value in self.dump.env.items()
        ]
