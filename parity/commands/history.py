"""Earlier states of a bundle: its entry in git's lockfile, and its files if still to be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from parity import process
from parity.drift import BundleDrift, tree_drift
from parity.errors import ConfigError, ParityError, Problem, Where
from parity.fixtures import archive, sources
from parity.lockfile import parse
from parity.safetext import safe
from parity.strict import MAX_BYTES

if TYPE_CHECKING:
    from parity.fixtures.store import Fetched, Store
    from parity.lockfile import Bundle, Locked, Lockfile
    from parity.reports.console import Teller

_SECONDS = 60.0


def lockfile_at(revision: str, path: Path) -> Lockfile:
    """The lockfile ``path`` as it was at a revision of the git repo that it lies in.

    Raises:
        ConfigError: ``git``: git is not there, or knows no such revision or file;
            or the lockfile was wrong then.
    """
    text = _show(revision, path)
    # A branch's name may hold slashes, a file's may not.
    named = safe(revision, 80).replace("/", "-")
    return parse(path.with_name(f"{path.name}@{named}"), text.encode())


def _show(revision: str, path: Path) -> str:
    if not revision or revision.startswith("-"):
        raise _error(path, f"{revision!r} is no revision")
    folder = path.resolve().parent
    words = ["git", "show", "--no-textconv", f"{revision}:./{path.name}"]
    env = process.environment({"GIT_OPTIONAL_LOCKS": "0"})
    try:
        # One byte more than a lockfile has: what is cut off is refused, not misread.
        ended = process.run(
            words, cwd=folder, env=env, timeout=_SECONDS, stdout_limit=MAX_BYTES + 1
        )
    except process.NotStartedError as error:
        raise _error(path, str(error)) from None
    if ended.exit_code:
        said = ended.stderr.strip().splitlines() or [f"exit {ended.exit_code}"]
        raise _error(path, f"no {path.name} at {revision!r}", said[-1])
    if ended.exit_code is None:
        raise _error(path, f"git did not answer within {_SECONDS:g} s")
    return ended.stdout


def _error(path: Path, reason: str, said: str = "") -> ConfigError:
    message = f"git cannot show the earlier lockfile: {safe(reason)}"
    details = (
        *([f"git     {safe(said)}"] if said else []),
        "name a revision that has it, or a bundle's .tar, with --from and --to",
    )
    return ConfigError(Problem("git", message, Where(path), details))


def entry(lock: Lockfile, name: str) -> Bundle | None:
    """The bundle ``name`` of an earlier lockfile, None where it did not list it."""
    return next((bundle for bundle in lock.bundles if bundle.id == name), None)


class State(NamedTuple):
    """A bundle at one time; ``missing`` says why its files cannot be had."""

    locked: Locked | None
    fetched: Fetched | None
    missing: str = ""


def earlier(
    bundle: Bundle,
    store: Store,
    folder: Path,
    teller: Teller,
    *,
    offline: bool,
    revision: str = "HEAD",
) -> State:
    """A bundle as it was locked before; its files may be gone."""
    try:
        fetched = obtained(bundle, store, folder, teller, offline=offline, revision=revision)
    except ParityError as error:
        problem = error.problems[0]
        return State(bundle.locked, None, f"[{problem.code}] {problem.message}")
    return State(bundle.locked, fetched)


def obtained(
    bundle: Bundle,
    store: Store,
    folder: Path,
    teller: Teller,
    *,
    offline: bool,
    revision: str = "HEAD",
) -> Fetched:
    """The files of a bundle as it is locked, though its source may hold others by now.

    The store is looked at first, then the source; where that is a path whose file has been
    overwritten, then what git keeps of the file at ``revision``. The digest decides.

    Raises:
        ParityError: As ``Store.tree`` does: it can no longer be had.
    """
    try:
        return store.tree(
            bundle, lockfile_dir=folder, offline=offline, progress=teller.download(bundle.id)
        )
    except ParityError:
        if not sources.is_local(bundle.source):
            raise
        found = _committed(bundle, revision, store, folder)
        if found is None:
            raise
        return found


def _committed(bundle: Bundle, revision: str, store: Store, folder: Path) -> Fetched | None:
    """The bundle from the file that git keeps at ``revision``, None where that is not it."""
    place = folder / bundle.source
    with TemporaryDirectory(prefix="parity-") as name:
        scratch = Path(name)
        # The digest of a tree, not of a commit: else git writes a pax header of its own.
        words = ["git", "archive", "--format=tar", f"--output={scratch / 'file.tar'}"]
        words += [f"{revision}^{{tree}}", "--", place.name]
        env = process.environment({"GIT_LITERAL_PATHSPECS": "1", "GIT_OPTIONAL_LOCKS": "0"})
        try:
            process.run(words, cwd=place.resolve().parent, env=env, timeout=_SECONDS)
            (scratch / "out").mkdir()
            archive.unpack(scratch / "file.tar", scratch / "out", archive.Limits())
            source = str(scratch / "out" / place.name)
            return store.tree(replace(bundle, source=source), lockfile_dir=folder)
        except (process.NotStartedError, ParityError, OSError):
            return None


def drift_between(name: str, before: State, after: State) -> BundleDrift:
    """What changed between two states, as far as both can be had; ``after`` has a lock."""
    if after.locked is None:
        msg = "a state that comes after has a lock"
        raise ValueError(msg)
    trees = None
    if before.fetched is not None and after.fetched is not None:
        trees = tree_drift(before.fetched.path, after.fetched.path)
    return BundleDrift(
        bundle=name,
        before=before.locked,
        after=after.locked,
        trees=trees,
        missing=before.missing,
    )
