"""Finding codes: those in the source and those in ``codes.toml`` are the same."""

from __future__ import annotations

import re

import pytest

from parity.codes import list_codes
from tests.support.codes import collect_codes

CODES = list_codes()
UTTERED = collect_codes()


def test_every_code_in_the_source_is_listed() -> None:
    unknown = {code: places for code, places in UTTERED.items() if code not in CODES}
    assert unknown == {}, "add these to parity/codes.toml"


def test_every_listed_code_is_in_the_source() -> None:
    assert [word for word in CODES if word not in UTTERED] == []


@pytest.mark.parametrize("word", CODES)
def test_code_is_kebab_case_with_a_meaning_of_one_line(word: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word)
    meaning, advice = CODES[word]
    assert 8 < len(meaning) < 100
    assert len(advice) > 5
    for text in (meaning, advice):
        assert "\n" not in text
        assert "|" not in text
        assert not text.endswith(".")


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("labels-rolled", "parity/suites/item_findings.py"),
        ("signed-zero", "parity/suites/tensor_values.py"),
        ("trailing-bytes", "parity/tensors/bin.py"),
        ("http-server-error", "parity.store.retries"),
        ("store-failed", "parity.store.disk"),
        ("no-example", "parity.port.cargo.call"),
        ("dump-panic", "parity/port/output.py"),
        ("yaml-merge", "parity/bundle/yaml_reader.py"),
        ("lockfile", "parity/lockfile/parse.py"),
    ],
)
def test_search_finds_codes_of_every_kind(code: str, place: str) -> None:
    assert any(found.startswith(place) for found in UTTERED[code])
