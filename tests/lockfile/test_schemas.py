"""The lockfile's schema for editors agrees with the parser, but for what no schema can state."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from parity.bundle.tolerances import TOLERANCES
from parity.lockfile import dump_settings
from parity.lockfile.contents import LOCK_KEYS, MAX_BYTES, MAX_FILES
from parity.lockfile.parse import BUNDLE_KEYS, SUITES
from tests.support.lockfiles import BAD, GOOD

SCHEMAS = ("fixtures.lock.schema.json", "report.schema.json")


def schema(name: str) -> Any:
    return json.loads(files("parity").joinpath("schemas", name).read_bytes())


LOCKFILE = schema("fixtures.lock.schema.json")
VALIDATOR = Draft202012Validator(LOCKFILE)

#: A schema sees values, the parser sees text: what is wrong only there, by kind.
BLIND = {
    "no YAML at all, or none that PyYAML loads; of that an editor complains by itself": (
        "malformed",
        "tab-indentation",
        "merge-conflict",
        "merge-conflict-crlf",
        "several-documents",
        "alias",
        "local-tag",
        "too-deep",
        "not-utf8",
        "control-character",
        "nul",
        "escape-out-of-range",
        "yaml-version-out-of-range",
        "key-a-list",
        "locked-size-many-digits",
    ),
    "bytes: an encoding, a character that is gone once it was read": ("utf16", "surrogate-escape"),
    "anchors, tags and merge keys are gone once they were read": ("anchor", "tag", "merge-key",
        "merge-key-in-options"),
    "of two equal keys only one is left": ("duplicate-key-at-the-top", "duplicate-extension",
        "duplicate-in-an-extension", "duplicate-key", "options-duplicate", "bounds-case-twice"),
    "a spelling: 0123, 1:30 and yes have become 83, 90 and true, and 1.0 equals 1": ("schema-octal",
        "schema-float", "id-a-number", "options-yes", "options-date", "options-octal",
        "dump-timeout-sexagesimal", "dump-timeout-nan", "bounds-underscore", "bounds-hex",
        "bounds-exact-yes", "locked-size-whole-float"),
    "the range of a number that is a string": ("bounds-overflow",),
    "arithmetic within a URL": ("source-port", "source-ipv6"),
    "what a case takes over from the dump that it belongs to": ("dump-case-of-a-command",),
}  # fmt: skip
_BLIND = {name for names in BLIND.values() for name in names}


def errors(data: bytes) -> list[str] | None:
    """What an editor's schema says: it knows strings as keys only. None: it is no YAML."""
    try:
        value = json.loads(json.dumps(yaml.safe_load(data), default=str))
    except (yaml.YAMLError, ValueError, OverflowError):
        return None
    return [error.message for error in VALIDATOR.iter_errors(value)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_and_packaged(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", GOOD)
def test_schema_accepts_good_lockfiles(name: str) -> None:
    assert errors(GOOD[name]) == []


@pytest.mark.parametrize("name", [name for name in BAD if name not in _BLIND])
def test_schema_rejects_bad_lockfiles(name: str) -> None:
    assert errors(BAD[name])


@pytest.mark.parametrize("name", sorted(_BLIND))
def test_schema_blind_spots_have_reasons(name: str) -> None:
    assert not errors(BAD[name])


def test_the_schema_knows_the_keys_and_words_of_the_parser() -> None:
    kinds = LOCKFILE["$defs"]
    assert tuple(LOCKFILE["properties"]) == ("schema", "bundles")
    assert tuple(kinds["locked"]["properties"]) == (*LOCK_KEYS, "extra")
    assert tuple(kinds["bundle"]["properties"]) == tuple(BUNDLE_KEYS)
    assert tuple(kinds["bundle"]["properties"]["suite"]["enum"]) == tuple(SUITES)
    assert tuple(kinds["bounds"]["properties"]) == TOLERANCES
    assert tuple(kinds["dump"]["properties"]) == (*dump_settings.DUMP_KEYS, "cases")
    assert tuple(kinds["case_dump"]["properties"]) == tuple(dump_settings.DUMP_KEYS)
    for key, limit in (("size", MAX_BYTES), ("unpacked", MAX_BYTES), ("files", MAX_FILES)):
        assert kinds["locked"]["properties"][key]["maximum"] == limit
    assert "|".join(dump_settings.PLACEHOLDERS) in kinds["word"]["pattern"]


def test_every_key_has_a_description() -> None:
    kinds = LOCKFILE["$defs"]
    for properties in (
        LOCKFILE["properties"],
        *(kinds[kind]["properties"] for kind in ("bundle", "dump", "bounds", "locked")),
    ):
        for key, value in properties.items():
            reported = kinds[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
            assert reported.get("description"), key


def test_the_defaults_that_an_editor_shows_are_those_of_the_records() -> None:
    record = dump_settings.Dump()
    printed = LOCKFILE["$defs"]["dump"]["properties"]
    defaults = {key: value["default"] for key, value in printed.items() if "default" in value}
    keys = ("features", "profile", "cwd", "env", "pass-env", "timeout", "build-timeout")
    records = {key: getattr(record, key.replace("-", "_")) for key in keys}
    assert defaults == json.loads(json.dumps(records))
