"""``diff``: what changed between two states of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity.commands import history, selection
from parity.commands.history import State
from parity.commands.options import Options
from parity.errors import ConfigError, Problem, Where
from parity.fixtures.store import Store
from parity.lockfile import Bundle, Dump, load
from parity.reports import drift_words

if TYPE_CHECKING:
    from parity.reports.console import Teller


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Options):
    """The command line of ``diff``.

    Attributes:
        before: A git revision, whose lockfile counts, or a .tar; HEAD where left out.
        after: The same; the lockfile as it lies there where left out.
    """

    bundle: str
    before: str = "HEAD"
    after: str | None = None
    markdown: bool = False


def diff(options: DiffOptions, teller: Teller) -> int:
    """Print what changed from ``before`` to ``after``; returns 0 whether anything did or not.

    Raises:
        ConfigError: No such bundle, revision or file.
        FetchError, IntegrityError: The state ``after`` cannot be had.
    """
    store = Store.default()
    after = _after(options, store, teller)
    before = _before(options, store, teller)
    told = history.drift_between(options.bundle, before, after)
    words = drift_words.markdown if options.markdown else drift_words.lines
    for line in words(told):
        teller.line(line)
    return 0


def _after(options: DiffOptions, store: Store, teller: Teller) -> State:
    if options.after is not None and _is_archive(options.after):
        return _archive(options, options.after, store)
    bundle = _bundle(options, options.after)
    selection.locked([bundle])
    revision, folder = options.after or "HEAD", _folder(options)
    fetched = history.obtained(
        bundle, store, folder, teller, offline=options.offline, revision=revision
    )
    return State(bundle.locked, fetched)


def _before(options: DiffOptions, store: Store, teller: Teller) -> State:
    if _is_archive(options.before):
        return _archive(options, options.before, store)
    lock = history.lockfile_at(options.before, options.lockfile)
    bundle = history.entry(lock, options.bundle)
    if bundle is None or bundle.locked is None:
        return State(None, None)
    folder, revision = _folder(options), options.before
    return history.earlier(
        bundle, store, folder, teller, offline=options.offline, revision=revision
    )


def _archive(options: DiffOptions, text: str, store: Store) -> State:
    path = Path(text)
    if not path.is_file():
        message = f"there is no file {path.as_posix()}"
        raise ConfigError(Problem("not-found", message, Where(path)))
    source = str(path.resolve())
    bundle = Bundle(id=options.bundle, source=source, suite="tensors", dump=Dump())
    return State(*store.measure(bundle, lockfile_dir=path.parent))


def _is_archive(text: str) -> bool:
    return text.endswith(".tar") or Path(text).is_file()


def _bundle(options: DiffOptions, revision: str | None) -> Bundle:
    """The bundle's entry in the lockfile, as it lies there or as git keeps it."""
    if revision is None:
        lock = load(options.lockfile)
    else:
        lock = history.lockfile_at(revision, options.lockfile)
    (bundle,) = selection.bundles(lock, [options.bundle])
    return bundle


def _folder(options: Options) -> Path:
    return options.lockfile.resolve().parent
