"""``docs/diagnosis.md`` has every cause with its meaning and an example of its message."""

from __future__ import annotations

import re
from pathlib import Path

from parity.diagnose import CODES
from tests.diagnose.test_diagnose import SINGLE
from tests.diagnose.test_diagnose_runs import RUNS

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text("utf-8")


def test_every_cause_has_a_meaning_and_a_place_to_look() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)

    assert {code: text for code, text, _ in rows} == CODES
    assert len({code for code, _, _ in rows}) == len(rows)


def test_example_messages_are_those_of_the_tests() -> None:
    shown = dict(re.findall(r"^`([a-z0-9-]+)`\n```text\n(.+)\n```$", PAGE, re.MULTILINE))
    held = {(entry[-2], entry[-1]) for table in (SINGLE, RUNS) for entry in table.values()}
    codes = {code for code, _ in held}

    assert codes <= set(shown) <= set(CODES)
    assert [code for code in codes if (code, shown[code]) not in held] == []
