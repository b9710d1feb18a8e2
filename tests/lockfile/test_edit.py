"""Edit a lockfile: only the lock changes, in any style of YAML."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.errors import ConfigError
from parity.lockfile import Locked, parse
from parity.lockfile.edit import EntryChange, apply_changes

PATH = Path("fixtures.lock.yaml")
OLD = Locked(sha256="0" * 64, size=1, files=2, unpacked=3, tree="1" * 64)
NEW = Locked(sha256="a" * 64, size=48_240_640, files=232, unpacked=48_091_136, tree="b" * 64)
PREFIXES = {"rev": "git:", "sha256": "sha256:", "tree": "h1:"}


def spliced(text: str, locked: Locked = NEW, source: str | None = None, name: str = "a") -> str:
    return apply_changes(
        PATH, text.encode(), {name: EntryChange(locked=locked, source=source)}
    ).decode()


def locked_of(text: str | bytes, name: str = "a") -> Locked:
    data = text.encode() if isinstance(text, str) else text
    found = {bundle.id: bundle for bundle in parse(PATH, data).bundles}[name].locked
    assert found is not None
    return replace(found, where={})


# Golden texts.


def test_scalars_are_replaced_and_nothing_else() -> None:
    before = """\
# Who owns this: the loaders' team.
schema: 1
bundles:
  a:   # the first
    source: 'x.tar'
    suite: tensors
    locked:  # by bump
      tree: 'h1:{t}'   # content
      sha256: sha256:{s}
      # bytes
      size: 1
      files: 2
      unpacked: 3

    dump: {package: p, example: e}
  b:
    source: "y.tar"
    suite: tensors
    dump: {package: p, example: e}
"""
    old = before.replace("{s}", "0" * 64).replace("{t}", "1" * 64)
    new = before.replace("{s}", "a" * 64).replace("{t}", "b" * 64)
    new = new.replace("size: 1", "size: 48240640").replace("files: 2", "files: 232")

    assert new.replace("unpacked: 3", "unpacked: 48091136") == spliced(old)


FIRST = """\
schema: 1
bundles:
    a:
        source: x.tar
        suite: tensors
        dump:
            package: p
            example: e  # ours
    # the next one
    b:
        source: "y.tar"
        suite: tensors
        dump: {package: p, example: e}
"""


def test_first_lock_has_the_indentation_of_the_file() -> None:
    at = FIRST.index("    # the next one")
    lines = [
        "        locked:",
        f'            sha256: "sha256:{"a" * 64}"',
        "            size: 48240640",
        "            files: 232",
        "            unpacked: 48091136",
        f'            tree: "h1:{"b" * 64}"',
        "",
    ]

    assert FIRST[:at] + "\n".join(lines) + FIRST[at:] == spliced(FIRST)


def test_missing_final_line_end_stays_missing() -> None:
    text = FIRST.rstrip("\n")

    made = spliced(text, name="b")

    assert made.startswith(text + "\n        locked:\n            sha256: ")
    assert made.endswith(f'tree: "h1:{"b" * 64}"')


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_byte_order_mark_survive(line_end: str) -> None:
    data = codecs.BOM_UTF8 + FIRST.replace("\n", line_end).encode()

    made = apply_changes(PATH, data, {"a": EntryChange(locked=NEW)})

    assert made.startswith(codecs.BOM_UTF8)
    assert spliced(FIRST).replace("\n", line_end).encode() == made.removeprefix(codecs.BOM_UTF8)


def test_lock_of_a_flow_mapping_is_a_flow_mapping() -> None:
    text = "schema: 1\nbundles: {a: {source: x.tar, suite: tensors, dump: {command: [p]}, }}\n"

    made = spliced(text, Locked(sha256="a" * 64))

    block = f', locked: {{sha256: "sha256:{"a" * 64}"}}, }}}}'
    assert text.replace(", }}", block) == made


BRACES = (
    "schema: 1\nbundles: {a: {source: hf://o/r@main/x.tar, suite: tensors, "
    'dump: {command: [p]}, locked: {rev: "git:R", sha256: sha256:S}}}\n'
).replace("R", "0" * 40).replace("S", "0" * 64)  # fmt: skip


def test_unknown_commit_is_removed_from_a_flow_mapping() -> None:
    made = spliced(BRACES, Locked(sha256="a" * 64, size=5), "x/y.tar")

    assert "source: x/y.tar, suite" in made
    assert f"locked: {{sha256: sha256:{'a' * 64}, size: 5}}" in made


def test_unknown_commit_is_removed_from_a_block() -> None:
    text = FIRST.replace("x.tar", "hf://o/r@main/x.tar") + (
        f'        locked:\n            rev: "git:{"0" * 40}"\n'
        f'            sha256: "sha256:{"0" * 64}"\n'
    )
    text = text.replace('"y.tar"', "hf://o/r@main/y.tar")

    made = spliced(text, Locked(sha256="a" * 64), name="b")

    expected = text.replace(f'            rev: "git:{"0" * 40}"\n', "")
    assert expected.replace(f"sha256:{'0' * 64}", f"sha256:{'a' * 64}") == made


def test_missing_numbers_are_added_to_a_block_that_lacks_them() -> None:
    text = FIRST + f"        locked:\n            sha256: 'sha256:{'0' * 64}'  # mine\n"

    made = spliced(text, name="b")

    assert f"sha256: 'sha256:{'a' * 64}'  # mine\n            size: 48240640\n" in made
    assert locked_of(made, "b") == NEW


def test_a_digest_in_a_block_scalar_keeps_the_comment_of_its_header() -> None:
    digest = "0" * 64
    scalar = f"|-  # odd\n              sha256:{digest}\n"
    text = f"{FIRST}        locked:\n            sha256: {scalar}"

    made = spliced(text, Locked(sha256="a" * 64), name="b")

    assert text.replace(digest, "a" * 64) == made


@pytest.mark.parametrize(
    ("written", "source", "expected"),
    [
        ("x.tar", "https://h.example/b.tar", "https://h.example/b.tar"),
        ("'x.tar'", "it's.tar", "'it''s.tar'"),
        ('"x.tar"', 'a"b.tar', '"a\\"b.tar"'),
        ("x.tar", "1.5", '"1.5"'),
        ("x.tar", "a b: c.tar", '"a b: c.tar"'),
        ("x.tar", "ä/ü.tar", '"ä/ü.tar"'),
        ("x.tar", "../b/c.tar", "../b/c.tar"),
    ],
)
def test_a_source_is_written_in_its_own_quotes_or_in_double_ones(
    written: str, source: str, expected: str
) -> None:
    text = FIRST.replace("x.tar", written)

    made = spliced(text, source=source)

    assert f"        source: {expected}\n" in made
    assert source == parse(PATH, made.encode()).bundles[0].source


def test_the_same_record_changes_no_byte() -> None:
    made = spliced(FIRST)

    assert made == spliced(made)


def test_unsupported_form_is_rejected() -> None:
    text = FIRST + "        ? locked\n        : rev: git:R\n          sha256: sha256:S\n"
    text = text.replace('"y.tar"', "hf://o/r@main/y.tar")
    text = text.replace("git:R", f"git:{'0' * 40}").replace("sha256:S", f"sha256:{'0' * 64}")

    with pytest.raises(ConfigError) as caught:
        spliced(text, name="b")

    assert caught.value.problems[0].code == "splice"
    assert caught.value.problems[0].details[-1].startswith("write the bundle's entry as plain")


def test_edit_that_makes_a_file_too_large_is_rejected() -> None:
    text = FIRST + "#" * (65_530 - len(FIRST))

    with pytest.raises(ConfigError) as caught:
        spliced(text)

    assert caught.value.problems[0].code == "splice"
    assert "larger than 65,536 bytes" in caught.value.problems[0].details[0]


def test_invalid_lockfile_is_not_edited() -> None:
    with pytest.raises(ConfigError) as caught:
        spliced(FIRST.replace("suite: tensors", "suite: tensor"))

    assert {"lockfile"} == {problem.code for problem in caught.value.problems}


# Any lockfile.


@dataclass
class Layout:
    """How a person writes: every choice that leaves the meaning alone."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    line_end: str
    step: int
    flow: bool
    flow_lock: bool

    def comment(self) -> str:
        return str(self.draw(st.sampled_from(["", "", "", "  # wörds: {x}", " #'\"", "   "])))

    def between(self, margin: str) -> str:
        lines = ["", "", "", f"{margin}# locked:", "", "#", f"{margin}   # ünder"]
        line = self.draw(st.sampled_from(lines))
        return line + self.line_end if line or self.draw(st.booleans()) else ""

    def quoted(self, value: str) -> str:
        kinds = ['"{}"', "'{}'", "{}"]
        return str(self.draw(st.sampled_from(kinds))).format(value)


def _values(locked: Locked, keys: list[str], quote: dict[str, str]) -> dict[str, str]:
    stated = {key: getattr(locked, key) for key in keys}
    return {
        key: quote[key].format(f"{PREFIXES.get(key, '')}{value}") for key, value in stated.items()
    }


def _lock(layout: Layout, margin: str) -> Callable[[Locked], str]:
    keys = layout.draw(st.permutations(["sha256", "size", "files", "unpacked", "tree"]))
    quote = {key: layout.quoted("{}") if key in PREFIXES else "{}" for key in keys}
    comments = {key: (layout.between(margin), layout.comment()) for key in keys}
    head, inner, end = layout.comment(), margin + " " * layout.step, layout.line_end

    def render(locked: Locked) -> str:
        values = _values(locked, keys, quote)
        if layout.flow_lock:
            pairs = ", ".join(f"{key}: {value}" for key, value in values.items())
            return f"{margin}locked: {{{pairs}}}{head}{end}"
        lines = [
            f"{comments[key][0]}{inner}{key}: {value}{comments[key][1]}{end}"
            for key, value in values.items()
        ]
        return f"{margin}locked:{head}{end}{''.join(lines)}"

    return render


@st.composite
def lockfiles(draw: Any, *, locked: bool) -> tuple[bytes, Callable[[Locked], bytes]]:
    """A lockfile's bytes with ``MAX_AGE`` locked or nothing, and what it is with another lock."""
    layout = Layout(
        draw,
        draw(st.sampled_from(["\n", "\r\n", "\r"])),
        draw(st.integers(1, 5)),
        flow=False,
        flow_lock=draw(st.booleans()),
    )
    end, one = layout.line_end, " " * layout.step
    two = one * 2
    dumps = [
        f"dump: {{package: p, example: e}}{layout.comment()}{end}",
        f"dump:{end}{two}{one}package: p{end}{two}{one}example: 'e'{layout.comment()}{end}",
        f"dump:{end}{two}{one}command:{end}{two}{one}- p{end}{two}{one}- q{layout.comment()}{end}",
        f"dump:{end}{two}{one}command: [p,{end}{two}{one} q]{layout.comment()}{end}",
    ]
    entries = [
        f"source: {layout.quoted('x/ü.tar')}{layout.comment()}{end}",
        f"suite: {layout.quoted('tensors')}{layout.comment()}{end}",
        draw(st.sampled_from(dumps)),
        *draw(
            st.lists(
                st.sampled_from(
                    [
                        f"why: |{end}{two}{one}two{end}{end}{two}{one}lines{end}",
                        f"x-note: {{a: [1, 'b']}}{end}",
                        f"options:{end}{two}{one}order:{end}",
                        f"known-failures: {{}}{layout.comment()}{end}",
                    ]
                ),
                max_size=3,
                unique=True,
            )
        ),
    ]
    order = [two + entry + layout.between(two) for entry in draw(st.permutations(entries))]
    place = draw(st.integers(0, len(order))) if locked else None
    block = _lock(layout, two)
    head = draw(st.sampled_from(["", f"---{end}", f"# ✓ mine{end}{end}", f"x-top: [a]{end}"]))
    head += f"schema: 1{layout.comment()}{end}bundles:{layout.comment()}{end}"
    before = draw(st.booleans())
    other = f"{one}other:{end}" + "".join(
        f"{two}{line}{end}" for line in ("source: y.tar", "suite: tensors", "dump: {command: [x]}")
    )
    tail = draw(st.sampled_from(["", f"# end{end}", f"...{end}"]))
    mark = codecs.BOM_UTF8 if draw(st.booleans()) else b""

    def render(lock: Locked) -> bytes:
        own = list(order)
        if place is not None:
            own.insert(place, block(lock))
        bundle = f"{one}a:{end}{''.join(own)}"
        parts = [other, bundle] if before else [bundle, other]
        return mark + (head + "".join(parts) + tail).encode()

    return render(OLD), render


@settings(max_examples=300, deadline=None)
@given(case=lockfiles(locked=True))
def test_any_lockfile_with_a_lock_becomes_the_same_text_with_the_new_one(
    case: tuple[bytes, Callable[[Locked], bytes]],
) -> None:
    before, render = case
    assert locked_of(before) == OLD

    assert render(NEW) == apply_changes(PATH, before, {"a": EntryChange(locked=NEW)})


@settings(max_examples=300, deadline=None)
@given(case=lockfiles(locked=False))
def test_any_lockfile_without_a_lock_gets_six_lines_and_keeps_all_others(
    case: tuple[bytes, Callable[[Locked], bytes]],
) -> None:
    before, _ = case

    after = apply_changes(PATH, before, {"a": EntryChange(locked=NEW)})

    assert locked_of(after) == NEW
    old, new = (data.decode().splitlines(keepends=True) for data in (before, after))
    at = next(n for n, line in enumerate(new) if line.strip() == "locked:")
    assert old == new[:at] + new[at + 6 :]
    assert {end_of(line) for line in new} <= {end_of(line) for line in old}


def end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
