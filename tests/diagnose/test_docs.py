"""``docs/diagnosis.md`` has examples of messages."""

from __future__ import annotations

import re
from pathlib import Path

from parity.codes import list_codes

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text("utf-8")


def test_example_messages_are_those_of_golden_files() -> None:
    printed = dict(re.findall(r"^`([a-z0-9-]+)`\n```text\n(.+)\n```$", PAGE, re.MULTILINE))
    golden = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*/*.golden"))
    messages = set(re.findall(r"^\[([a-z0-9-]+)\] (.+)$", golden, re.MULTILINE))
    codes = {code for code, _ in messages}

    assert codes <= set(printed) <= set(list_codes("causes"))
    assert [code for code in codes if (code, printed[code]) not in messages] == []
