"""``bump --check``: whether a host states another bundle than the locked one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.commands.asking import BumpOptions, asked, measured, wanted
from parity.errors import EXIT_CODES, ParityError, gravest
from parity.fixtures.store import Store
from parity.reports.console import tell_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.errors import Kind
    from parity.fixtures.claims import Claims
    from parity.lockfile import Bundle
    from parity.reports.console import Teller

#: Exit code where something newer exists.
NEWER = 10


def check(options: BumpOptions, chosen: Sequence[Bundle], teller: Teller) -> int:
    """Say of each bundle whether its source holds something newer; writes nothing.

    Returns:
        10 where one does, 0 where none does or it cannot be known without a download; the
        gravest error's code where a bundle could not be asked for.
    """
    kinds: list[Kind] = []
    newer = False
    for bundle in chosen:
        try:
            newer |= _check(bundle, options, teller)
        except ParityError as error:
            tell_error(error)
            kinds.append(error.kind)
    worst = gravest(kinds)
    if worst is not None:
        return EXIT_CODES[worst]
    return NEWER if newer else 0


def _check(bundle: Bundle, options: BumpOptions, teller: Teller) -> bool:
    """Whether there is something newer."""
    if bundle.locked is None:
        teller.bundle(bundle.id, f"not locked yet; lock it with parity bump {bundle.id}")
        return True
    asking = wanted(bundle, options)
    stated = asked(asking, options)
    digest = stated.sha256
    if digest is None and options.download:
        digest = measured(asking, stated, options, Store.default(), teller)[0].sha256
    if digest is None:
        teller.bundle(bundle.id, _unknown(stated))
        return False
    if digest == bundle.locked.sha256:
        teller.bundle(bundle.id, f"up to date, sha256:{digest[:12]}…")
        return False
    known = f"locked sha256:{bundle.locked.sha256[:12]}…, there is sha256:{digest[:12]}…"
    teller.bundle(bundle.id, f"newer: {known}; look at it with parity bump {bundle.id}")
    return True


def _unknown(stated: Claims) -> str:
    return f"unknown without a download ({stated.silence}); --download fetches it"
