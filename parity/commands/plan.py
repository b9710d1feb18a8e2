"""The part of ``verify`` before anything runs: fetch a bundle, read its cases, check its entry."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.bounds import Bounds, tighten
from parity.commands import selection
from parity.errors import ConfigError, ParityError, Problem
from parity.results import Finding
from parity.suites import suite
from parity.verdicts import patterns, problems
from parity.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parity.commands.options import Options, VerifyOptions
    from parity.fixtures.store import Fetched
    from parity.lockfile import Bundle
    from parity.reports.console import Teller
    from parity.suites.base import Case, Suite


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A bundle that could not be made ready, and why."""

    bundle: Bundle
    error: ParityError


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A bundle that is ready to be verified.

    Attributes:
        cases: Those that the command line chose; ``all_cases`` all of the bundle.
        bounds: By case id, what the bundle states as the lockfile tightens it.
        seconds: Spent on fetching.
    """

    bundle: Bundle
    suite: Suite
    tree: Path
    tree_digest: str
    cases: tuple[Case, ...]
    all_cases: tuple[Case, ...]
    bounds: Mapping[str, Bounds]
    findings: tuple[Finding, ...]
    seconds: float


def plan(
    bundle: Bundle, options: VerifyOptions, teller: Teller, deadline: float | None
) -> Planned | Failed:
    """Make one bundle ready; its trouble is returned, not raised."""
    try:
        return _plan(bundle, options, teller, deadline)
    except ParityError as error:
        teller.bundle(bundle.id, f"{error.kind} error")
        return Failed(bundle=bundle, error=error)


def _plan(
    bundle: Bundle, options: VerifyOptions, teller: Teller, deadline: float | None
) -> Planned:
    chosen = suite(bundle.suite)
    if chosen is None:
        message = f"this version has no suite {bundle.suite!r} yet"
        raise ConfigError(Problem("no-such-suite", message, bundle.where.get("suite")))
    _hold_options(bundle, chosen)
    started = time.perf_counter()
    fetched = fetch(bundle, options, teller, deadline)
    seconds = time.perf_counter() - started
    cases = chosen.cases(fetched.path, bundle.options)
    bounds = _bounds(bundle, cases)
    _hold_names(bundle, cases)
    return Planned(
        bundle=bundle,
        suite=chosen,
        tree=fetched.path,
        tree_digest=fetched.tree,
        cases=tuple(c for c in cases if selection.wants(options.cases, bundle.id, c.id)),
        all_cases=cases,
        bounds=bounds,
        findings=tuple(
            Finding(level="notice", code="store-repaired", message=text) for text in fetched.notices
        ),
        seconds=seconds,
    )


def tell_misses(bundles: Sequence[Bundle], options: Options, teller: Teller) -> None:
    """Where no server may be asked, say at once what all of them would be asked for."""
    from parity.fixtures.store import Store

    for line in Store.default().misses(bundles) if options.offline else ():
        teller.line(line)


def fetch(bundle: Bundle, options: Options, teller: Teller, deadline: float | None) -> Fetched:
    """The bundle's tree from the store, fetched, checked and unpacked where it is not there."""
    from parity.fixtures.store import Store

    fetched = Store.default().tree(
        bundle,
        lockfile_dir=options.lockfile.resolve().parent,
        offline=options.offline,
        verify=options.rehash,
        progress=teller.download(bundle.id),
        tell=lambda text: teller.bundle(bundle.id, text),
        deadline=deadline,
    )
    how = "in the store" if fetched.cached else "fetched, checked, unpacked"
    teller.bundle(bundle.id, f"{how}, sha256:{fetched.sha256[:12]}…")
    return fetched


def _hold_options(bundle: Bundle, chosen: Suite) -> None:
    where = bundle.where.get("options")
    for key, value in bundle.options.items():
        allowed = chosen.options.get(key)
        if allowed is None:
            known = ", ".join(chosen.options) or "none"
            message = f"suite {chosen.name} of {bundle.id!r} has no option {key!r}; known: {known}"
            raise ConfigError(Problem("no-such-option", message, where))
        if callable(allowed):
            if complaint := allowed(value):
                message = f"option {key} of {bundle.id!r}: {complaint}"
                raise ConfigError(Problem("no-such-option", message, where))
        elif value not in allowed:
            shown = ", ".join(map(str, allowed))
            message = f"option {key} of {bundle.id!r} is {value!r}; it must be one of {shown}"
            raise ConfigError(Problem("no-such-option", message, where))


def _bounds(bundle: Bundle, cases: tuple[Case, ...]) -> dict[str, Bounds]:
    bounds = {}
    for case in cases:
        bounds[case.id], refused = tighten(case.bounds, bundle.bounds.get(case.id, {}))
        if refused:
            message = (
                f"bounds of {bundle.id}/{case.id} may only tighten what the bundle states: "
                + "; ".join(refused)
            )
            raise ConfigError(Problem("bounds-loosened", message, bundle.where.get("bounds")))
    return bounds


def _hold_names(bundle: Bundle, cases: tuple[Case, ...]) -> None:
    """Names in the entry that mean nothing are errors, not silently without effect."""
    ids = [case.id for case in cases]
    stale = patterns(bundle.known_failures)
    found = [
        Problem("names-nothing", text, bundle.where.get("known-failures"))
        for text in problems(stale, ids, VOCABULARY)
    ]
    for key, names in (("bounds", bundle.bounds), ("dump", bundle.case_dumps)):
        found += [
            Problem(
                "names-nothing",
                f"{key} of {bundle.id!r} names the case {name!r}; cases: {', '.join(ids)}",
                bundle.where.get(key),
            )
            for name in names
            if name not in ids
        ]
    if found:
        raise ConfigError(*found)
