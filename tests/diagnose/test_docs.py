"""``docs/diagnosis.md`` says what the code says: every cause, its words, every wrong decoder."""

from __future__ import annotations

import re
from pathlib import Path

from parity.checkpoints import blocks
from parity.diagnose import CODES
from parity.tensors.dtypes import DTYPES
from tests.diagnose.test_diagnose import SINGLE
from tests.diagnose.test_diagnose_runs import RUNS

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text("utf-8")


def test_every_cause_is_on_the_page_with_its_meaning_and_a_place_to_look() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)

    assert {code: text for code, text, _ in rows} == CODES
    assert len({code for code, _, _ in rows}) == len(rows)


def test_what_is_said_is_what_the_tests_hold_the_code_to() -> None:
    shown = dict(re.findall(r"^`([a-z0-9-]+)`\n```text\n(.+)\n```$", PAGE, re.MULTILINE))
    held = {(entry[-2], entry[-1]) for table in (SINGLE, RUNS) for entry in table.values()}
    codes = {code for code, _ in held}

    assert codes <= set(shown) <= set(CODES)
    assert [code for code in codes if (code, shown[code]) not in held] == []


def test_every_wrong_decoder_is_on_the_page_with_its_sentence() -> None:
    rows = re.findall(r"^\| ([A-Z]\S+) \| `([a-z0-9-]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    due = [
        (kind, one.name, one.text)
        for kind in blocks.DECODERS
        if kind not in DTYPES
        for one in blocks.list_mistakes(kind)
    ]

    assert due == rows
