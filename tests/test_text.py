"""House style for text: masked, escaped, counted, aligned."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import github
from parity.port import output
from parity.port.process import build_environment
from parity.reports import json as json_report
from parity.reports import junit, markdown
from parity.store.sources import Secret
from parity.text import add_secret, align_columns, join_limited, sanitize, truncate
from tests.support.reports import make_bundle, make_case, make_finding, make_report

TOKEN = "hf_0123456789canary"  # noqa: S105 - not a real one


def test_secret_is_masked_before_the_text_is_cut() -> None:
    add_secret(TOKEN)
    assert sanitize(f"a {TOKEN} b") == "a *** b"
    assert sanitize(f"a {TOKEN}".encode()) == "a ***"
    assert "canary" not in sanitize("x" * 195 + TOKEN)
    assert TOKEN[:4] not in sanitize("x" * 195 + TOKEN)
    assert output.select_last_lines("x" * 395 + TOKEN) == ("x" * 395 + "***",)
    assert TOKEN[:6] not in output.clean_lines("x" * 4090 + TOKEN)[0]


def test_short_value_is_not_a_secret() -> None:
    add_secret("true")
    assert sanitize("true") == "true"


def test_longer_secret_is_masked_first() -> None:
    add_secret(TOKEN)
    add_secret(f"{TOKEN}-longer")
    assert sanitize(f"{TOKEN}-longer") == "***"


@pytest.mark.parametrize("source", ["variable", "input", "file"])
def test_secret_is_in_no_report(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "variable":
        monkeypatch.setenv("ACTIONS_RUNTIME_TOKEN", TOKEN)
        assert TOKEN not in build_environment().values()
    elif source == "input":
        monkeypatch.setenv("HF_TOKEN", "")
        github.expose_hub_token(TOKEN)
        github.withdraw_hub_token()
    else:
        Secret(TOKEN)
    text = f"the port printed {TOKEN}"
    finding = make_finding("values", text, cause=text, details=(text,), measures={TOKEN: TOKEN})
    case = make_case(f"c-{TOKEN}", finding, command=text, reason=text)
    whole = make_report(make_bundle(case, port={TOKEN: TOKEN}), environment={TOKEN: TOKEN})

    found = json_report.write_json(whole, 1, tmp_path).read_text(encoding="utf-8")
    found += junit.format_junit(whole)
    found += markdown.format_summary(whole, 1, form="full", max_bytes=2**20)

    assert "the port printed ***" in found
    assert "canary" not in found


def test_lists_and_tables() -> None:
    assert join_limited(range(3), 5) == "0, 1, 2"
    assert join_limited(range(8), 5) == "0, 1, 2, 3, 4 and 3 more"
    assert align_columns([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc  d"]
    assert align_columns([]) == []
    assert truncate("abcdef", 4) == "abc…"
    assert truncate("abcd", 4) == "abcd"
