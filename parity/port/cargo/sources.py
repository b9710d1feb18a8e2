"""Copy the source of an example with the packages of its repo, and name the crates it uses."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Largest file and all files together that are copied, in bytes.
MAX_FILE, _MAX_BYTES = 2**20, 2**23
_SKIPPED_FOLDERS = {"target", ".git", "node_modules", ".venv", ".nox"}
_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")


def copy_sources(
    repo: Path, package: Path, workspace: Path, target: Path, example: str
) -> Path | None:
    """Copy a package, with those of its workspace that it needs, into ``target``, a new folder.

    Only its ``example`` is copied. Return the package's folder below ``target``; None if its
    sources are larger than 8 MiB, need packages outside of the workspace or modules outside of
    the repo.
    """
    root = _read_toml(workspace / "Cargo.toml")
    packages = _collect_packages(package, workspace, root)
    if packages is None:
        return None
    if "package" in root:
        packages.add(workspace)
    others = _list_other_examples(package, example)
    files = [file for one in packages for file in _list_files(one) if file not in others]
    files += [module for file in files for module in _list_modules(file) if module not in files]
    size = sum(file.stat().st_size for file in files)
    top = Path(os.path.commonpath([workspace, *files]))
    if size > _MAX_BYTES or not top.is_relative_to(repo):
        return None
    more = [workspace / name for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml")]
    for file in {*files, *(one for one in more if one.is_file())}:
        copied = target / file.relative_to(top)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copied)
    if "workspace" in root:
        members = sorted(one.relative_to(workspace).as_posix() for one in packages - {workspace})
        _write_members(target / workspace.relative_to(top) / "Cargo.toml", members)
    return target / package.relative_to(top)


def find_subject(package: Path, workspace: Path, subject: str | None) -> list[str]:
    """Return the crates that a package is a port of or uses, each as ``name version``.

    These are the dependencies that come from a registry or a git repo, or ``subject`` alone.
    """
    packages = _read_toml(workspace / "Cargo.lock").get("package", [])
    manifest = _read_toml(package / "Cargo.toml")
    names = {subject} if subject else {name for name, _ in _list_dependencies(manifest)}
    return sorted(
        f"{one['name']} {one['version']}"
        for one in packages
        if one["name"] in names and (subject or "source" in one)
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _list_dependencies(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and settings of each dependency, also of single targets."""
    for part in (manifest, *manifest.get("target", {}).values()):
        for table in _TABLES:
            for name, value in part.get(table, {}).items():
                settings = value if isinstance(value, dict) else {}
                yield settings.get("package", name), settings


def _collect_packages(package: Path, workspace: Path, root: dict[str, Any]) -> set[Path] | None:
    """Return the folders of a package and its path dependencies; None if one is outside."""
    shared = root.get("workspace", {}).get("dependencies", {})
    found: set[Path] = set()
    pending = [package]
    while pending:
        folder = pending.pop()
        if not folder.is_relative_to(workspace):
            return None
        if folder in found:
            continue
        found.add(folder)
        for name, settings in _list_dependencies(_read_toml(folder / "Cargo.toml")):
            base, chosen = folder, settings
            if settings.get("workspace"):
                base, chosen = workspace, shared.get(name, {})
            if isinstance(chosen, dict) and "path" in chosen:
                pending.append(Path(os.path.normpath(base / chosen["path"])))
    return found


def _list_files(package: Path) -> Iterator[Path]:
    """Yield the regular files of a package, without those of packages in folders of it."""
    for name, folders, files in os.walk(package):
        folder = Path(name)
        inner = sorted(set(folders) - _SKIPPED_FOLDERS)
        folders[:] = [one for one in inner if not (folder / one / "Cargo.toml").is_file()]
        for file in (folder / each for each in sorted(files)):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= MAX_FILE:
                yield file


def _list_modules(file: Path) -> list[Path]:
    """Return the files that a source in Rust names by `#[path = "../dump.rs"]`."""
    text = file.read_text("utf-8", "replace") if file.suffix == ".rs" else ""
    named = re.findall(r'^\s*#\[path\s*=\s*"(.+)"\]', text, re.MULTILINE)
    return [one for name in named if (one := (file.parent / name).resolve()).is_file()]


def _list_other_examples(package: Path, example: str) -> set[Path]:
    """Return the examples that cargo finds by itself and that nothing names, except ``example``."""
    named = {entry.get("name") for entry in _read_toml(package / "Cargo.toml").get("example", [])}
    return {
        file
        for file in package.glob("examples/*.rs")
        if file.stem not in named | {example} and "fn main" in file.read_text("utf-8", "replace")
    }


def _write_members(manifest: Path, members: list[str]) -> None:
    """Write the packages that were copied as the members of the workspace."""
    text = manifest.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^\s*(default-members|exclude)\s*=\s*\[.*?\]\s*$", "", text)
    line = f"members = {json.dumps(members)}"
    text, count = re.subn(r"(?ms)^\s*members\s*=\s*\[.*?\]", lambda _: line, text, count=1)
    if not count:
        text = re.sub(r"(?m)^\[workspace\]\s*$", lambda _: f"[workspace]\n{line}", text, count=1)
    manifest.write_text(text, encoding="utf-8")
