"""Prepare a bundle before anything runs: fetch it, read its cases, check its entry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parity.bundle.tolerances import Tolerances, tighten
from parity.errors import ConfigError, ParityError, Problem
from parity.known_failures import find_unmatched, parse_known_failures
from parity.lockfile import Bundle
from parity.reports.console import RunConsole
from parity.results import Finding
from parity.store.fetch import FetchedBundle, describe_misses
from parity.store.member_names import ArchiveError, NameTree, split_name
from parity.store.store import Store
from parity.suites import find_suite
from parity.suites.base import Case, Suite
from parity.suites.bundle_files import find_unread
from parity.tensors.dtypes import DTYPES
from parity.tensors.elements import resolve_close
from parity.text import format_count
from parity.verify import selection
from parity.verify.options import Options, VerifyOptions


@dataclass(frozen=True, kw_only=True)
class PreparationError:
    """A bundle that could not be prepared, and why."""

    bundle: Bundle
    error: ParityError


@dataclass(frozen=True, kw_only=True)
class PreparedBundle:
    """A bundle that is ready to be verified."""

    bundle: Bundle
    suite: Suite
    tree: Path
    tree_digest: str
    cases: tuple[Case, ...]  # that are run: selected by the command line, and claimed
    all_cases: tuple[Case, ...]
    bounds: Mapping[str, Tolerances]  # by case id: the bundle's, tightened by the lockfile
    findings: tuple[Finding, ...]
    seconds: float  # of fetching
    claimed: frozenset[str] | None = None  # None where all cases are
    unclaimed: tuple[str, ...] = ()  # selected, but not claimed
    manifest: str | None = None  # SHA-256 of the manifest beside the lockfile, None without one
    #: Extra files in the store, by their paths below `{files_dir}`.
    files: Mapping[str, Path] = field(default_factory=dict)

    def list_loaded(self, case: Case) -> list[Case]:
        """Return the cases whose states must be saved before ``case`` can run."""
        return _list_loaded([case], self.all_cases)[1:] if case.load_from else []


def prepare_bundle(
    bundle: Bundle, options: VerifyOptions, console: RunConsole, deadline: float | None
) -> PreparedBundle | PreparationError:
    """Prepare one bundle; return an error instead of raising it."""
    try:
        return _prepare(bundle, options, console, deadline)
    except ParityError as error:
        console.print_step(bundle.id, f"{error.kind} error")
        return PreparationError(bundle=bundle, error=error)


def _prepare(
    bundle: Bundle, options: VerifyOptions, console: RunConsole, deadline: float | None
) -> PreparedBundle:
    chosen = get_suite(bundle)
    _check_options(bundle, chosen)
    started = time.perf_counter()
    fetched = fetch_bundle(bundle, options, console, deadline)
    files = fetch_extra_files(bundle, options, console, deadline)
    seconds = time.perf_counter() - started
    suite_options = build_options(bundle, options)
    cases = read_cases(bundle, chosen, fetched.path, suite_options)
    bounds = _tighten_bounds(bundle, cases, chosen)
    claimed = selection.select_claimed(bundle, [case.id for case in cases])
    selected = [c for c in cases if selection.is_selected(options.cases, bundle.id, c.id)]
    first = [c for c in selected if options.all_cases or c.id in claimed]
    run = {c.id for c in (first if options.dumps else _list_loaded(first, cases))}
    named = run.union(case.id for case in selected)
    _check_names(bundle, cases)
    if bundle.manifest:
        _check_words(bundle, cases)
    manifest = suite_options.get("manifest")
    notices = [Finding(level="notice", code="store-repaired", message=m) for m in fetched.notices]
    return PreparedBundle(
        bundle=bundle,
        suite=chosen,
        tree=fetched.path,
        tree_digest=fetched.tree,
        cases=tuple(c for c in cases if c.id in run),
        unclaimed=tuple(c.id for c in cases if c.id in named and c.id not in claimed),
        claimed=claimed if bundle.cases else None,
        all_cases=cases,
        bounds=bounds,
        findings=(*notices, *find_unread(fetched.path, chosen, cases)),
        seconds=seconds,
        files=files,
        manifest=hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest else None,
    )


def _list_loaded(chosen: Sequence[Case], cases: Sequence[Case]) -> list[Case]:
    """Return ``chosen`` and the cases whose states they load, directly or not."""
    by_id = {case.id: case for case in cases}
    found = {case.id: case for case in chosen}
    for first in chosen:
        case = first
        while case.load_from:
            case = by_id[case.load_from]
            found[case.id] = case
    return [*found.values()]


def get_suite(bundle: Bundle) -> Suite:
    """Return the suite of a bundle.

    Raises:
        ConfigError: There is none of this name.
    """
    chosen = find_suite(bundle.suite)
    if chosen is None:
        message = f"this version has no suite {bundle.suite!r}"
        raise ConfigError(Problem("no-such-suite", message, bundle.where.get("suite")))
    return chosen


def read_cases(
    bundle: Bundle, suite: Suite, tree: Path, options: Mapping[str, Any]
) -> tuple[Case, ...]:
    """Read the cases of a bundle, with the lockfile's tolerances."""
    return tuple(
        replace(case, requested=bundle.bounds.get(case.id, {}))
        for case in suite.cases(tree, options)
    )


def print_missing_bundles(bundles: Sequence[Bundle], options: Options, console: RunConsole) -> None:
    """Describe bundles missing from the store, for --offline."""
    downloads = [one for bundle in bundles for one in bundle.list_downloads()]
    paths = Store.from_environment().paths
    for line in describe_misses(paths, downloads) if options.offline else ():
        console.print_line(line)


def fetch_bundle(
    bundle: Bundle, options: Options, console: RunConsole, deadline: float | None
) -> FetchedBundle:
    """Return the bundle's tree from the store; download, check and unpack it if missing."""
    fetched = Store.from_environment().fetch_tree(
        bundle, **_build_fetch_options(bundle, options, console, deadline)
    )
    status = "in the store" if fetched.cached else "downloaded, checked, unpacked"
    console.print_step(bundle.id, f"{status}, sha256:{fetched.sha256[:12]}…")
    return fetched


def fetch_extra_files(
    bundle: Bundle, options: Options, console: RunConsole, deadline: float | None
) -> dict[str, Path]:
    """Return the bundle's extra files in the store, by their paths below ``{files_dir}``."""
    if not bundle.extra_files:
        return {}
    names = NameTree()
    for extra in bundle.extra_files.values():
        try:  # a path must be possible on every system, and may not collide
            names.reserve(split_name(extra.path.encode(), is_folder=False), is_folder=False)
        except ArchiveError as error:
            message = f"{extra.path!a} cannot be the path of an extra file: {error.reason}"
            raise ConfigError(Problem("unsafe-name", message, extra.where.get("path"))) from None
    store = Store.from_environment()
    files = {
        extra.path: store.fetch_file(one, **_build_fetch_options(one, options, console, deadline))
        for extra, one in zip(bundle.extra_files.values(), bundle.list_extra_files(), strict=True)
    }
    console.print_step(bundle.id, f"{format_count(len(files), 'extra files')} in the store")
    return files


def _build_fetch_options(
    bundle: Bundle, options: Options, console: RunConsole, deadline: float | None
) -> dict[str, Any]:
    return {
        "lockfile_dir": options.lockfile.resolve().parent,
        "offline": options.offline,
        "rehash": options.rehash,
        "progress": console.show_download(bundle.id),
        "notify": lambda text: console.print_bundle(bundle.id, text),
        "deadline": deadline,
    }


def build_options(bundle: Bundle, options: Options) -> dict[str, Any]:
    """Return the suite's options, with the path of the manifest beside the lockfile."""
    if not bundle.manifest:
        return dict(bundle.options)
    return {**bundle.options, "manifest": options.lockfile.resolve().parent / bundle.manifest}


def _check_options(bundle: Bundle, chosen: Suite) -> None:
    if bundle.manifest and not chosen.has_manifest:
        message = f"suite {chosen.name} of {bundle.id!r} has no manifest; remove the key"
        raise ConfigError(Problem("manifest", message, bundle.where.get("manifest")))
    for key, value in bundle.options.items():
        allowed = chosen.options.get(key)
        if allowed is None:
            known = ", ".join(chosen.options) or "none"
            message = f"suite {chosen.name} of {bundle.id!r} has no option {key!r}; known: {known}"
        elif callable(allowed):
            reason = allowed(value)
            message = f"option {key} of {bundle.id!r}: {reason}" if reason else ""
        elif value not in allowed:
            choices = ", ".join(map(str, allowed))
            message = f"option {key} of {bundle.id!r} is {value!r}; it must be one of {choices}"
        else:
            message = ""
        if message:
            raise ConfigError(Problem("no-such-option", message, bundle.where.get("options")))


def _tighten_bounds(
    bundle: Bundle, cases: tuple[Case, ...], chosen: Suite
) -> dict[str, Tolerances]:
    bounds = {}
    for case in cases:
        stated = bundle.bounds.get(case.id, {})
        allowed = case.measures or chosen.measures
        if unknown := [name for name in stated if name not in allowed]:
            what = "a case of JSON alone" if case.measures else f"the suite {chosen.name}"
            message = (
                f"bounds of {bundle.id}/{case.id}: {what} cannot compare with "
                f"{', '.join(unknown)}; it has {' and '.join(allowed)}"
            )
            raise ConfigError(Problem("no-such-option", message, bundle.where.get("bounds")))
        bounds[case.id] = tighten(case.tolerances, stated)[0]
        # Where nothing else is stated, they are for what has a tolerance of its own; `close` is
        # float64's, the tightest.
        others = case.others if "exact" in case.tolerances else ()
        rest = {
            name: value
            for name, value in stated.items()
            if not any(
                not tighten(one, {part: number}, DTYPES["F64"])[1]
                for one in others
                for part, number in resolve_close({name: value}, DTYPES["F64"]).items()
            )
        }
        if rejected := tighten(case.tolerances, rest)[1]:
            what = f"bounds of {bundle.id}/{case.id} may only tighten what the bundle states"
            message = f"{what}: {'; '.join(rejected)}"
            raise ConfigError(Problem("bounds-loosened", message, bundle.where.get("bounds")))
    return bounds


def _check_words(bundle: Bundle, cases: Sequence[Case]) -> None:
    """Reject words of the manifest beside the lockfile that no program there is given."""
    dumps = (bundle.dump, *bundle.case_dumps.values())
    given = "".join(str((one.args, one.command, one.run_env, one.example)) for one in dumps)
    problems = {}
    for case in cases:
        for name in case.placeholders:
            if name.startswith("words.") and f"{{{name}}}" not in given and name not in problems:
                where = case.detail.rules.locate(("cases", case.id, *name.split(".")))
                message = (
                    f"case {case.id!r}: no argument of a program in {bundle.id!r} has {{{name}}}"
                )
                problems[name] = Problem("names-nothing", message, where)
    if problems:
        raise ConfigError(*problems.values())


def _check_names(bundle: Bundle, cases: tuple[Case, ...]) -> None:
    """Reject names in the entry that match no case, instead of ignoring them."""
    ids = [case.id for case in cases]
    known = parse_known_failures(bundle.known_failures, ids)
    texts = [("known-failures", text) for text in find_unmatched(known, ids)]
    for key, names in (("bounds", bundle.bounds), ("dump", bundle.case_dumps)):
        what = f"{key} of {bundle.id!r} names the case"
        texts += [
            (key, f"{what} {name!r}; cases: {', '.join(ids)}") for name in names if name not in ids
        ]
    if texts:
        where = bundle.where
        raise ConfigError(*(Problem("names-nothing", text, where.get(k)) for k, text in texts))
