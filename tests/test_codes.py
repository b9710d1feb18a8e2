"""One vocabulary: what the source utters, what is listed, and what the page explains are equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parity.codes import FINDING_CODES
from tests.support.codes import collect_codes

HERE = Path(__file__).parent.parent
PAGE = HERE.joinpath("docs", "findings.md").read_text(encoding="utf-8")
SOURCE = HERE.joinpath("parity", "codes.py").read_text(encoding="utf-8")
UTTERED = collect_codes()


def rows() -> list[tuple[str, str, str]]:
    return re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


def test_every_code_in_the_source_is_listed() -> None:
    unknown = {code: places for code, places in UTTERED.items() if code not in FINDING_CODES}
    assert unknown == {}, "add these to parity/codes.py and docs/findings.md"


def test_every_listed_code_is_in_the_source() -> None:
    assert [word for word in FINDING_CODES if word not in UTTERED] == []


def test_the_page_explains_every_word_in_the_order_of_the_list() -> None:
    assert [(code, meaning) for code, meaning, _ in rows()] == list(FINDING_CODES.items())


def test_the_parts_of_the_page_are_those_of_the_list() -> None:
    parts = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert parts == re.findall(r"^    # (.+)\.$", SOURCE, re.MULTILINE)


def test_the_page_says_what_to_do_about_every_word() -> None:
    assert all(len(advice) > 5 and not advice.endswith(".") for _, _, advice in rows())


def test_what_the_page_refers_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert HERE.joinpath("docs", target).is_file(), target


@pytest.mark.parametrize("word", FINDING_CODES)
def test_code_is_kebab_case_with_a_meaning_of_one_line(word: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word)
    meaning = FINDING_CODES[word]
    assert 8 < len(meaning) < 100
    assert "\n" not in meaning
    assert "|" not in meaning
    assert not meaning.endswith(".")


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("labels-rolled", "parity/suites/item_findings.py"),
        ("signed-zero", "parity/suites/tensor_findings.py"),
        ("trailing-bytes", "parity/tensors/bin.py"),
        ("http-server-error", "parity/store/http/statuses.py"),
        ("store-failed", "parity.store.disk"),
        ("no-example", "parity.port.cargo.messages"),
        ("dump-panic", "parity/port/exit_findings.py"),
        ("yaml-merge", "parity/lockfile/yaml_reader.py"),
        ("lockfile", "parity/lockfile/yaml_reader.py"),
    ],
)
def test_search_finds_codes_of_every_kind(code: str, place: str) -> None:
    assert any(found.startswith(place) for found in UTTERED[code])
