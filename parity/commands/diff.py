"""``diff``: print what changed between two states of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parity.errors import ConfigError, Location, Problem
from parity.lockfile import Bundle, Dump, load
from parity.reports import drift_console, drift_text
from parity.reports.console import RunConsole
from parity.reports.markdown import escape_markdown
from parity.store.remote_metadata import measure
from parity.store.store import Store
from parity.text import sanitize
from parity.verify import bundle_states, selection
from parity.verify.bundle_states import MAX_LINE, BundleState
from parity.verify.options import Options, declare, declare_flag


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Options):
    """The command line of ``diff``; a state is a git revision of the lockfile or a .tar."""

    bundle: str = declare("ID", "the bundle")
    before: str = declare("--from REV", "git revision of the lockfile, or a .tar (HEAD)", "HEAD")
    after: str | None = declare("--to REV", "the same (default: the lockfile on disk)", None)
    markdown: bool = declare_flag("--markdown", "print a Markdown table for a pull request")


def diff(options: DiffOptions, console: RunConsole) -> int:
    """Print what changed from ``before`` to ``after``; return 0 whether anything did or not.

    Raises:
        ConfigError: No such bundle, revision or file.
        FetchError, IntegrityError: The state ``after`` is not available.
    """
    store = Store.from_environment()
    after = _load_after(options, store, console)
    before = _load_before(options, store, console)
    drift = bundle_states.compute_drift(options.bundle, before, after)
    format_lines = drift_text.format_markdown if options.markdown else drift_console.format_lines
    for line in format_lines(drift):
        console.print_line(line)
    weaker = bundle_states.list_weaker_checks(before, after, options)
    for line in ["", *weaker] if weaker else []:
        text = f"- {escape_markdown(line, MAX_LINE)}" if options.markdown else f"  {line}"
        console.print_line(sanitize(text, MAX_LINE) if line else "")
    return 0


def _load_after(options: DiffOptions, store: Store, console: RunConsole) -> BundleState:
    revision = options.after
    if revision is None:
        lock = load(options.lockfile)
    elif _is_archive(revision):
        return _measure_archive(options, revision, store)
    else:
        lock = bundle_states.load_lockfile_at(revision, options.lockfile)
    (bundle,) = selection.select_bundles(lock, [options.bundle])
    selection.check_locked([bundle], options.format_place())
    fetched = bundle_states.obtain_files(
        bundle,
        store,
        options.lockfile.resolve().parent,
        console,
        offline=options.offline,
        revision=revision or "HEAD",
    )
    return BundleState(bundle.locked, fetched, entry=bundle, revision=revision)


def _load_before(options: DiffOptions, store: Store, console: RunConsole) -> BundleState:
    revision = options.before
    if _is_archive(revision):
        return _measure_archive(options, revision, store)
    lock = bundle_states.load_lockfile_at(revision, options.lockfile)
    bundle = bundle_states.find_bundle(lock, options.bundle)
    if bundle is None or bundle.locked is None:
        return BundleState(None, None)
    folder = options.lockfile.resolve().parent
    return bundle_states.load_earlier(
        bundle, store, folder, console, offline=options.offline, revision=revision
    )


def _measure_archive(options: DiffOptions, text: str, store: Store) -> BundleState:
    path = Path(text)
    if not path.is_file():
        message = f"{path.as_posix()} does not exist or is not a file"
        raise ConfigError(Problem("not-found", message, Location(path)))
    source = str(path.resolve())
    bundle = Bundle(id=options.bundle, source=source, suite="tensors", dump=Dump())
    return BundleState(*measure(store, bundle, lockfile_dir=path.parent))


def _is_archive(text: str) -> bool:
    return text.endswith(".tar") or Path(text).is_file()
