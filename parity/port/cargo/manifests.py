"""Find the packages of a repo and their examples, without running cargo."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

_SKIPPED_FOLDERS = {"target", ".git", "node_modules", ".venv", ".nox"}
_MAX_FOLDERS = 20_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


class Example(NamedTuple):
    """A cargo example: its name, source, and the features that it requires."""

    package: str
    name: str
    path: Path  # Relative to the repo
    cwd: Path  # The folder of the workspace, likewise
    features: tuple[str, ...] = ()


class Package(NamedTuple):
    """A cargo package of the repo and its examples."""

    name: str
    folder: Path  # Relative to the repo
    cwd: Path  # The folder of the workspace, likewise
    examples: list[Example]


def list_packages(repo: Path) -> list[Package]:
    """Return all packages below ``repo`` whose names a lockfile accepts, by folder."""
    manifests = dict(_read_manifests(repo))
    packages = []
    for folder, manifest in manifests.items():
        package = manifest.get("package")
        name = package.get("name") if isinstance(package, dict) else None
        if isinstance(name, str) and _NAME.fullmatch(name):
            # Cargo rejects a manifest whose values have other types, as test data may have.
            with suppress(TypeError, AttributeError):
                packages.append(_read_package(name, folder, repo, manifests))
    return packages


def _read_package(
    name: str, folder: Path, repo: Path, manifests: dict[Path, dict[str, Any]]
) -> Package:
    cwd = _find_workspace(folder, repo, manifests).relative_to(repo)
    examples = [
        Example(name, example, path.relative_to(repo), cwd, features)
        for example, (path, features) in sorted(_find_examples(folder, manifests[folder]).items())
        if _NAME.fullmatch(example)
    ]
    return Package(name, folder.relative_to(repo), cwd, examples)


def _read_manifests(repo: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    # Path.walk needs Python 3.12.
    for _, (name, folders, files) in zip(range(_MAX_FOLDERS), os.walk(repo), strict=False):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS)
        if "Cargo.toml" in files:
            try:
                text = Path(name, "Cargo.toml").read_text(encoding="utf-8")
                yield Path(name), tomllib.loads(text)
            except (OSError, ValueError):
                continue


def _find_workspace(folder: Path, repo: Path, manifests: dict[Path, dict[str, Any]]) -> Path:
    """Return the nearest folder at or above the package's whose workspace does not exclude it."""
    for parent in (folder, *folder.parents):
        workspace = manifests.get(parent, {}).get("workspace")
        if isinstance(workspace, dict):
            inside = folder.relative_to(parent).as_posix()
            excluded = workspace.get("exclude", [])
            if not any(fnmatch(inside, f"{name}".rstrip("/")) for name in excluded):
                return parent
        if parent == repo:
            break
    return folder


def _find_examples(
    folder: Path, manifest: dict[str, Any]
) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Return source and required features of a package's examples, by name."""
    found: dict[str, tuple[Path, tuple[str, ...]]] = {}
    if manifest["package"].get("autoexamples", True):
        for path in (*folder.glob("examples/*.rs"), *folder.glob("examples/*/main.rs")):
            found[path.parent.name if path.name == "main.rs" else path.stem] = path, ()
    for entry in manifest.get("example", []):
        name = entry.get("name")
        if isinstance(name, str):
            default = found.get(name, (folder / "examples" / f"{name}.rs", ()))[0]
            path = folder / entry["path"] if "path" in entry else default
            found[name] = path, tuple(map(str, entry.get("required-features", ())))
    return {name: one for name, one in found.items() if _is_below(one[0], folder)}


def _is_below(path: Path, folder: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())
