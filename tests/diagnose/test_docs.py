"""``docs/diagnosis.md`` has every cause with its meaning and an example of its message."""

from __future__ import annotations

import re
from pathlib import Path

from parity.diagnose import CODES

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text("utf-8")


def test_every_cause_has_a_meaning_and_a_place_to_look() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)

    assert {code: text for code, text, _ in rows} == CODES
    assert len({code for code, _, _ in rows}) == len(rows)


def test_example_messages_are_those_of_golden_files() -> None:
    printed = dict(re.findall(r"^`([a-z0-9-]+)`\n```text\n(.+)\n```$", PAGE, re.MULTILINE))
    golden = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*/*.golden"))
    messages = set(re.findall(r"^\[([a-z0-9-]+)\] (.+)$", golden, re.MULTILINE))
    codes = {code for code, _ in messages}

    assert codes <= set(printed) <= set(CODES)
    assert [code for code in codes if (code, printed[code]) not in messages] == []
