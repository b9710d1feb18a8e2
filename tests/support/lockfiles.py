"""Provide lockfiles for tests: good ones, and bad ones with the messages that reject them."""

from __future__ import annotations

from typing import NamedTuple

BASE = """\
schema: 1
bundles:
  a:
    source: "x.tar"
    suite: tensors
    dump: {package: p, example: e}
"""
DIGEST = "0123456789abcdef" * 4


class BadLockfile(NamedTuple):
    """A text, and its problems as ``line:column: [code] message``, in this order."""

    text: str | bytes
    problems: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return self.text if isinstance(self.text, bytes) else self.text.encode()


def _make_bad(text: str | bytes, *problems: str) -> BadLockfile:
    return BadLockfile(text, problems)


def _append(text: str) -> str:
    return f"{BASE}{text}\n"


def _replace_source(text: str) -> str:
    return BASE.replace('"x.tar"', text)


def _replace_dump(text: str) -> str:
    return BASE.replace("{package: p, example: e}", text)


def _add_dump_keys(text: str) -> str:
    return _replace_dump(f"{{package: p, example: e, {text}}}")


def _add_locked_keys(text: str) -> str:
    return _append(f'    locked: {{sha256: "sha256:{DIGEST}", {text}}}')


BAD: dict[str, BadLockfile] = {
    "empty": _make_bad("", "[yaml-empty] the file is empty"),
    "only-comments": _make_bad("# nothing yet\n", "[yaml-empty] the file is empty"),
    "malformed": _make_bad(
        BASE + "  b: {\n",
        "8:1: [yaml] not valid YAML: while parsing a flow node, expected the node "
        "content, but found '<stream end>'",
    ),
    "tab-indentation": _make_bad(
        "schema: 1\nbundles:\n\ta: 1\n",
        "3:1: [yaml] not valid YAML: while scanning for the next token, found character "
        "'\\t' that cannot start any token",
    ),
    "merge-conflict": _make_bad(
        "schema: 1\n<<<<<<< HEAD\nbundles: {}\n=======\nbundles: {}\n>>>>>>> other\n",
        "2:1: [merge-conflict] a merge conflict is not resolved here; keep one side and "
        "remove the marks",
    ),
    "merge-conflict-crlf": _make_bad(
        "schema: 1\r\n=======\r\nbundles: {}\r\n",
        "2:1: [merge-conflict] a merge conflict is not resolved here; keep one side and "
        "remove the marks",
    ),
    "several-documents": _make_bad(
        BASE + "---\n" + BASE, "7:1: [yaml] more than one YAML document"
    ),
    "anchor": _make_bad(
        _replace_source('&s "x.tar"'),
        "4:13: [yaml-anchor] anchors and aliases are not read; write the value out",
    ),
    "alias": _make_bad(
        _replace_source("*s"),
        "4:13: [yaml-anchor] anchors and aliases are not read; write the value out",
    ),
    "tag": _make_bad(
        _replace_source('!!str "x.tar"'), "4:13: [yaml-tag] tags are not read; remove it"
    ),
    "local-tag": _make_bad(
        _replace_source("!x y"), "4:13: [yaml-tag] tags are not read; remove it"
    ),
    "anchor-on-mapping": _make_bad(
        "schema: 1\nbundles: &b {}\n",
        "2:10: [yaml-anchor] anchors and aliases are not read; write the value out",
    ),
    "merge-key": _make_bad(
        BASE + "    <<: {why: w}\n",
        "7:5: [yaml-merge] merge keys are not read; write the entries out",
    ),
    "merge-key-in-options": _make_bad(
        _append("    options: {<<: {order: free}}"),
        "7:15: [yaml-merge] merge keys are not read; write the entries out",
    ),
    "too-large": _make_bad(
        "schema: 1\nbundles: {}\n#" + "x" * 65536,
        "[yaml-size] the file is larger than 65,536 bytes, the most that is read",
    ),
    "too-deep": _make_bad(
        "schema: 1\nbundles: " + "[" * 16, "2:25: [yaml-depth] nested deeper than 16 levels"
    ),
    "not-utf8": _make_bad(
        b"schema: 1\nbundles: {\xc3\xa4\xff: 1}\n",
        "2:12: [yaml] not UTF-8: the byte 0xff cannot stand here",
    ),
    "utf16": _make_bad(
        b"\xff\xfe" + BASE.encode("utf-16-le"),
        "1:1: [yaml] not UTF-8: the byte 0xff cannot stand here",
    ),
    "control-character": _make_bad(
        _replace_source('"x\x1b[31m.tar"'),
        "4:15: [yaml] the character U+001B is not allowed; it would not be seen",
    ),
    "nul": _make_bad(
        b"schema: 1\0\n", "1:10: [yaml] the character U+0000 is not allowed; it would not be seen"
    ),
    "line-separator": _make_bad(
        "schema: 1 # \u2028bundles: {}\n",
        "1:13: [yaml] the character U+2028 is not allowed; it would not be seen",
    ),
    "bidi-override": _make_bad(
        "schema: 1 # \u202e\n",
        "1:13: [yaml] the character U+202E is not allowed; it would not be seen",
    ),
    "escape-out-of-range": _make_bad(
        _replace_source(r'"\U00110000"'),
        "[yaml] not valid YAML: an escape or a version number is out of range",
    ),
    "yaml-version-out-of-range": _make_bad(
        "%YAML 1." + "9" * 5000 + "\n---\n" + BASE,
        "[yaml] not valid YAML: an escape or a version number is out of range",
    ),
    "surrogate-escape": _make_bad(
        _replace_source(r'"\ud83d\ude00"'),
        "4:13: [lockfile] source of bundle 'a' holds half of a character (a surrogate "
        "escape); write the character itself",
    ),
    "nul-escape": _make_bad(
        _replace_source(r'"x\0.tar"'), "4:13: [lockfile] source of bundle 'a' holds a NUL character"
    ),
    "not-a-mapping": _make_bad(
        "- schema\n", "1:1: [lockfile] the lockfile must be a mapping, not a list"
    ),
    "a-scalar": _make_bad(
        "schema\n", "1:1: [lockfile] the lockfile must be a mapping, not the string 'schema'"
    ),
    "no-schema": _make_bad(
        BASE.replace("schema: 1\n", ""), "1:1: [lockfile] the lockfile needs the key 'schema'"
    ),
    "no-bundles": _make_bad("schema: 1\n", "1:1: [lockfile] the lockfile needs the key 'bundles'"),
    "bundles-nothing": _make_bad(
        "schema: 1\nbundles:\n", "2:9: [lockfile] bundles must be a mapping, not nothing"
    ),
    "bundles-empty": _make_bad(
        "schema: 1\nbundles: {}\n",
        "2:1: [lockfile] no bundle is listed; there is nothing to verify",
    ),
    "bundles-a-list": _make_bad(
        "schema: 1\nbundles: [a]\n", "2:10: [lockfile] bundles must be a mapping, not a list"
    ),
    "schema-newer": _make_bad(
        BASE.replace("schema: 1", "schema: 2\nprofiles: {}"),
        "1:9: [lockfile-newer] schema 2 is newer than this version reads (1); upgrade parity",
    ),
    "schema-string": _make_bad(
        BASE.replace("schema: 1", 'schema: "1"'),
        "1:9: [lockfile] schema must be 1, not the string '1'",
    ),
    "schema-zero": _make_bad(
        BASE.replace("schema: 1", "schema: 0"), "1:9: [lockfile] schema must be 1, not the number 0"
    ),
    "schema-true": _make_bad(
        BASE.replace("schema: 1", "schema: true"),
        "1:9: [lockfile] schema must be 1, not the value true",
    ),
    "schema-octal": _make_bad(
        BASE.replace("schema: 1", "schema: 01"),
        "1:9: [lockfile] schema must be 1, not the number 01",
    ),
    "schema-float": _make_bad(
        BASE.replace("schema: 1", "schema: 1.0"),
        "1:9: [lockfile] schema must be 1, not the number 1.0",
    ),
    "unknown-key-at-the-top": _make_bad(
        BASE + "profiles: {}\n",
        "7:1: [lockfile] the lockfile has no key 'profiles'; known: schema, bundles",
    ),
    "duplicate-key-at-the-top": _make_bad(
        BASE + "schema: 1\n",
        "7:1: [lockfile] the key 'schema' of the lockfile stands in line 1 already",
    ),
    "duplicate-extension": _make_bad(
        "x-a: 1\nx-a: 2\n" + BASE,
        "2:1: [lockfile] the key 'x-a' of the lockfile stands in line 1 already",
    ),
    "duplicate-in-an-extension": _make_bad(
        "x-a: {b: 1, b: 2}\n" + BASE,
        "1:13: [lockfile] the key 'b' of x-a of the lockfile stands in line 1 already",
    ),
    "key-a-number": _make_bad(
        BASE + "1: 2\n", "7:1: [lockfile] the key 1 of the lockfile must be a string; quote it"
    ),
    "key-a-list": _make_bad(
        BASE + "? [a]\n: 2\n", "7:3: [lockfile] the key of the lockfile must be a string; quote it"
    ),
    "key-empty": _make_bad(BASE + '"": 2\n', "7:1: [lockfile] a key of the lockfile is empty"),
    "id-upper-case": _make_bad(
        BASE.replace("  a:", "  Big:"),
        "3:3: [lockfile] a bundle's id is 'Big'; it must be lower-case letters, digits, "
        "'.', '_' and '-', at most 100, a letter or digit first",
    ),
    "id-too-long": _make_bad(
        BASE.replace("  a:", "  " + "a" * 101 + ":"),
        "3:3: [lockfile] a bundle's id is "
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…; it must be "
        "lower-case letters, digits, '.', '_' and '-', at most 100, a letter or digit "
        "first",
    ),
    "id-a-number": _make_bad(
        BASE.replace("  a:", "  1:"),
        "3:3: [lockfile] the key 1 of bundles must be a string; quote it",
    ),
    "duplicate-bundle": _make_bad(
        BASE + "  a: {}\n", "7:3: [lockfile] the key 'a' of bundles stands in line 3 already"
    ),
    "bundle-nothing": _make_bad(
        "schema: 1\nbundles:\n  a:\n", "3:5: [lockfile] bundle 'a' must be a mapping, not nothing"
    ),
    "bundle-empty": _make_bad(
        "schema: 1\nbundles:\n  a: {}\n",
        "3:6: [lockfile] bundle 'a' needs the key 'source'",
        "3:6: [lockfile] bundle 'a' needs the key 'suite'",
        "3:6: [lockfile] bundle 'a' needs the key 'dump'",
    ),
    "unknown-key": _make_bad(
        _append("    sources: []"),
        "7:5: [lockfile] bundle 'a' has no key 'sources'; known: why, source, mirrors, "
        "suite, dump, options, bounds, known-failures, locked",
    ),
    "duplicate-key": _make_bad(
        _append("    suite: serialize"),
        "7:5: [lockfile] the key 'suite' of bundle 'a' stands in line 5 already",
    ),
    "why-not-a-string": _make_bad(
        _append("    why: [a]"), "7:10: [lockfile] why of bundle 'a' must be a string, not a list"
    ),
    "why-empty": _make_bad(_append('    why: ""'), "7:10: [lockfile] why of bundle 'a' is empty"),
    "why-yes": _make_bad(
        _append("    why: yes"),
        "7:10: [lockfile] why of bundle 'a' must be a string, not the value yes; quote it",
    ),
    "suite-unknown": _make_bad(
        BASE.replace("tensors", "tensor"),
        "5:12: [lockfile] suite of bundle 'a' is 'tensor'; it must be one of "
        "dataloader, serialize, pipeline, tensors",
    ),
    "suite-nothing": _make_bad(
        BASE.replace(" tensors", ""),
        "5:11: [lockfile] suite of bundle 'a' must be a string, not nothing",
    ),
    "options-a-list": _make_bad(
        _append("    options: [order]"),
        "7:14: [lockfile] options of bundle 'a' must be a mapping, not a list",
    ),
    "options-duplicate": _make_bad(
        _append("    options: {order: free, order: strict}"),
        "7:28: [lockfile] the key 'order' of options of bundle 'a' stands in line 7 already",
    ),
    "options-yes": _make_bad(
        _append("    options: {order: yes}"),
        "7:22: [lockfile] order of options of bundle 'a' must be true or false, not the value yes",
    ),
    "options-date": _make_bad(
        _append("    options: {order: 2020-01-01}"),
        "7:22: [lockfile] order of options of bundle 'a' must be a string, not the "
        "value 2020-01-01; quote it",
    ),
    "options-octal": _make_bad(
        _append("    options: {seed: 0123}"),
        "7:21: [lockfile] seed of options of bundle 'a' is 0123; write it in digits, as "
        "42, 0.00001 or 1e-5",
    ),
    "source-absolute": _make_bad(
        _replace_source('"/srv/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is '/srv/x.tar': a path must be relative "
        "to the lockfile",
    ),
    "source-home": _make_bad(
        _replace_source('"~/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is '~/x.tar': a path must be relative to "
        "the lockfile",
    ),
    "source-drive": _make_bad(
        _replace_source('"C:/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'C:/x.tar': a path must be relative "
        "to the lockfile",
    ),
    "source-backslash": _make_bad(
        _replace_source(r"'a\x.tar'"),
        "4:13: [lockfile] source of bundle 'a' is 'a\\\\x.tar': use / between folders",
    ),
    "source-http": _make_bad(
        _replace_source('"http://example.org/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'http://example.org/x.tar': plain "
        "http is for loopback only; use https",
    ),
    "source-ftp": _make_bad(
        _replace_source('"ftp://example.org/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'ftp://example.org/x.tar': known are "
        "hf://, https:// and paths relative to the lockfile",
    ),
    "source-file": _make_bad(
        _replace_source('"file:///srv/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'file:///srv/x.tar': known are hf://, "
        "https:// and paths relative to the lockfile",
    ),
    "source-credentials": _make_bad(
        _replace_source('"https://me:secret@example.org/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https://…@example.org/x.tar': "
        "credentials do not belong in a lockfile",
    ),
    "source-user": _make_bad(
        _replace_source('"https://me@example.org/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https://…@example.org/x.tar': "
        "credentials do not belong in a lockfile",
    ),
    "source-no-host": _make_bad(
        _replace_source('"https:///x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https:///x.tar': it names no host",
    ),
    "source-port": _make_bad(
        _replace_source('"https://example.org:99999/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https://example.org:99999/x.tar': not a URL",
    ),
    "source-ipv6": _make_bad(
        _replace_source('"https://[::1/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https://[::1/x.tar': not a URL",
    ),
    "source-space": _make_bad(
        _replace_source('"https://example.org/a b.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'https://example.org/a b.tar': "
        "percent-encode spaces and what is not ASCII",
    ),
    "source-loopback-look-alike": _make_bad(
        _replace_source('"http://localhost.example.org/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'http://localhost.example.org/x.tar': "
        "plain http is for loopback only; use https",
    ),
    "source-hf-no-ref": _make_bad(
        _replace_source('"hf://o/r/x.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'hf://o/r/x.tar': the form is "
        "hf://[datasets/]owner/repo@ref/path, a / in ref as %2F",
    ),
    "source-hf-no-path": _make_bad(
        _replace_source('"hf://o/r@main"'),
        "4:13: [lockfile] source of bundle 'a' is 'hf://o/r@main': the form is "
        "hf://[datasets/]owner/repo@ref/path, a / in ref as %2F",
    ),
    "source-hf-query": _make_bad(
        _replace_source('"hf://o/r@main/x.tar?a=b"'),
        "4:13: [lockfile] source of bundle 'a' is 'hf://o/r@main/x.tar?a=b': the form "
        "is hf://[datasets/]owner/repo@ref/path, a / in ref as %2F",
    ),
    "source-empty": _make_bad(
        _replace_source('""'), "4:13: [lockfile] source of bundle 'a' is empty"
    ),
    "source-number": _make_bad(
        _replace_source("12"),
        "4:13: [lockfile] source of bundle 'a' must be a string, not the number 12; quote it",
    ),
    "source-line-feed": _make_bad(
        _replace_source(r'"x\n.tar"'),
        "4:13: [lockfile] source of bundle 'a' is 'x\\n.tar': it holds a character that "
        "cannot be seen",
    ),
    "mirror-hf": _make_bad(
        _append('    mirrors: ["hf://o/r@main/x.tar"]'),
        "7:15: [lockfile] item 1 of mirrors of bundle 'a' is 'hf://o/r@main/x.tar': a "
        "mirror is an https:// URL",
    ),
    "mirror-path": _make_bad(
        _append('    mirrors: ["x.tar"]'),
        "7:15: [lockfile] item 1 of mirrors of bundle 'a' is 'x.tar': a mirror is an https:// URL",
    ),
    "mirror-http": _make_bad(
        _append('    mirrors: ["http://example.org/x.tar"]'),
        "7:15: [lockfile] item 1 of mirrors of bundle 'a' is "
        "'http://example.org/x.tar': plain http is for loopback only; use https",
    ),
    "mirrors-a-string": _make_bad(
        _append('    mirrors: "https://example.org/x.tar"'),
        "7:14: [lockfile] mirrors of bundle 'a' must be a list, not the string "
        "'https://example.org/x.tar'",
    ),
    "mirror-credentials": _make_bad(
        _append('    mirrors: ["https://a:b@example.org/x.tar"]'),
        "7:15: [lockfile] item 1 of mirrors of bundle 'a' is "
        "'https://…@example.org/x.tar': credentials do not belong in a lockfile",
    ),
    "dump-a-list": _make_bad(
        _replace_dump("[p, e]"), "6:11: [lockfile] dump of bundle 'a' must be a mapping, not a list"
    ),
    "dump-nothing": _make_bad(
        _replace_dump(""), "6:10: [lockfile] dump of bundle 'a' must be a mapping, not nothing"
    ),
    "dump-empty": _make_bad(
        _replace_dump("{}"),
        "6:11: [lockfile] dump of bundle 'a': exactly one of package, crate and command "
        "is needed, found none",
    ),
    "dump-no-example": _make_bad(
        _replace_dump("{package: p}"),
        "6:11: [lockfile] dump of bundle 'a': package needs the key 'example'",
    ),
    "dump-no-program": _make_bad(
        _replace_dump("{example: e}"),
        "6:11: [lockfile] dump of bundle 'a': exactly one of package, crate and command "
        "is needed, found none",
    ),
    "dump-two-programs": _make_bad(
        _replace_dump('{package: p, crate: "c@1.2.3", example: e}'),
        "6:11: [lockfile] dump of bundle 'a': exactly one of package, crate and command "
        "is needed, found package and crate",
    ),
    "dump-three-programs": _make_bad(
        _replace_dump('{package: p, crate: "c@1.2.3", command: [x], example: e}'),
        "6:11: [lockfile] dump of bundle 'a': exactly one of package, crate and command "
        "is needed, found package and crate and command",
    ),
    "dump-command-and-example": _make_bad(
        _replace_dump("{command: [x], example: e, args: [], features: [f]}"),
        "6:11: [lockfile] dump of bundle 'a': example, args, features cannot stand "
        "beside command, which holds all its words itself",
    ),
    "dump-command-and-profile": _make_bad(
        _replace_dump("{command: [x], profile: dev, build-timeout: 5}"),
        "6:11: [lockfile] dump of bundle 'a': profile, build-timeout cannot stand "
        "beside command, which holds all its words itself",
    ),
    "dump-command-empty": _make_bad(
        _replace_dump("{command: []}"),
        "6:21: [lockfile] command of dump of bundle 'a' must begin with the name of a program",
    ),
    "dump-command-first-word-empty": _make_bad(
        _replace_dump('{command: ["", x]}'),
        "6:21: [lockfile] command of dump of bundle 'a' must begin with the name of a program",
    ),
    "dump-command-a-string": _make_bad(
        _replace_dump("{command: python dump.py}"),
        "6:21: [lockfile] command of dump of bundle 'a' must be a list, not the string "
        "'python dump.py'",
    ),
    "dump-unknown-key": _make_bad(
        _add_dump_keys("flags: []"),
        "6:36: [lockfile] dump of bundle 'a' has no key 'flags'; known: package, crate, "
        "command, example, args, features, profile, cwd, env, timeout, build-timeout, "
        "cases",
    ),
    "dump-extension": _make_bad(
        _add_dump_keys("x-a: 1"),
        "6:36: [lockfile] dump of bundle 'a' has no key 'x-a'; known: package, crate, "
        "command, example, args, features, profile, cwd, env, timeout, build-timeout, "
        "cases",
    ),
    "dump-package-an-option": _make_bad(
        _replace_dump('{package: "--all", example: e}'),
        "6:21: [lockfile] package of dump of bundle 'a' is '--all'; it must be a cargo "
        "package's name",
    ),
    "dump-example-an-option": _make_bad(
        _replace_dump('{package: p, example: "-e"}'),
        "6:33: [lockfile] example of dump of bundle 'a' is '-e'; it must be a cargo "
        "example's name, which may hold {case} or {group}",
    ),
    "dump-example-path": _make_bad(
        _replace_dump("{package: p, example: a/b}"),
        "6:33: [lockfile] example of dump of bundle 'a' is 'a/b'; it must be a cargo "
        "example's name, which may hold {case} or {group}",
    ),
    "dump-example-empty": _make_bad(
        _replace_dump('{package: p, example: ""}'),
        "6:33: [lockfile] example of dump of bundle 'a' is empty",
    ),
    "dump-example-output": _make_bad(
        _replace_dump('{package: p, example: "e_{output_dir}"}'),
        "6:33: [lockfile] example of dump of bundle 'a' is 'e_{output_dir}'; it must be "
        "a cargo example's name, which may hold {case} or {group}",
    ),
    "dump-crate-not-exact": _make_bad(
        _replace_dump('{crate: "c@1.2", example: e}'),
        "6:19: [lockfile] crate of dump of bundle 'a' is 'c@1.2'; it must be "
        "name@x.y.z, with an exact version",
    ),
    "dump-crate-no-version": _make_bad(
        _replace_dump("{crate: c, example: e}"),
        "6:19: [lockfile] crate of dump of bundle 'a' is 'c'; it must be name@x.y.z, "
        "with an exact version",
    ),
    "dump-placeholder": _make_bad(
        _add_dump_keys('args: ["{cases}"]'),
        "6:43: [lockfile] item 1 of args of dump of bundle 'a' has the unknown "
        "placeholder '{cases}'; known: {case}, {fixture_dir}, {bundle_dir}, "
        "{output_dir}, {group}, {checkpoint}, {seed}, {epoch}, {start_batch}; a brace "
        "itself is written twice",
    ),
    "dump-lone-brace": _make_bad(
        _add_dump_keys('args: ["{case"]'),
        "6:43: [lockfile] item 1 of args of dump of bundle 'a' has the unknown "
        "placeholder '{'; known: {case}, {fixture_dir}, {bundle_dir}, {output_dir}, "
        "{group}, {checkpoint}, {seed}, {epoch}, {start_batch}; a brace itself is "
        "written twice",
    ),
    "dump-json-word": _make_bad(
        _add_dump_keys("""args: ['{"a": 1}']"""),
        "6:43: [lockfile] item 1 of args of dump of bundle 'a' has the unknown "
        "placeholder '{\"a\": 1}'; known: {case}, {fixture_dir}, {bundle_dir}, "
        "{output_dir}, {group}, {checkpoint}, {seed}, {epoch}, {start_batch}; a brace "
        "itself is written twice",
    ),
    "dump-half-escaped": _make_bad(
        _add_dump_keys('args: ["{{case}"]'),
        "6:43: [lockfile] item 1 of args of dump of bundle 'a' has the unknown "
        "placeholder '}'; known: {case}, {fixture_dir}, {bundle_dir}, {output_dir}, "
        "{group}, {checkpoint}, {seed}, {epoch}, {start_batch}; a brace itself is "
        "written twice",
    ),
    "dump-args-a-number": _make_bad(
        _add_dump_keys('args: ["--seed", 42]'),
        "6:53: [lockfile] item 2 of args of dump of bundle 'a' must be a string, not "
        "the number 42; quote it",
    ),
    "dump-feature": _make_bad(
        _add_dump_keys('features: ["a b"]'),
        "6:47: [lockfile] item 1 of features of dump of bundle 'a' is 'a b'; it must be "
        "the name of a cargo feature",
    ),
    "dump-profile": _make_bad(
        _add_dump_keys('profile: "--dev"'),
        "6:45: [lockfile] profile of dump of bundle 'a' is '--dev'; it must be a cargo "
        "profile's name",
    ),
    "dump-cwd-up": _make_bad(
        _add_dump_keys("cwd: ../other"),
        "6:41: [lockfile] cwd of dump of bundle 'a' is '../other'; it must be a folder "
        "inside the repo",
    ),
    "dump-cwd-absolute": _make_bad(
        _add_dump_keys("cwd: /srv"),
        "6:41: [lockfile] cwd of dump of bundle 'a' is '/srv'; it must be a folder inside the repo",
    ),
    "dump-env-number": _make_bad(
        _add_dump_keys("env: {N: 1}"),
        "6:45: [lockfile] N in env of dump of bundle 'a' must be a string, not the "
        "number 1; quote it",
    ),
    "dump-env-name": _make_bad(
        _add_dump_keys('env: {"A=B": x}'),
        "6:42: [lockfile] env of dump of bundle 'a': a variable's name holds no '=', 'A=B' does",
    ),
    "dump-env-empty-name": _make_bad(
        _add_dump_keys('env: {"": x}'),
        "6:42: [lockfile] a key of env of dump of bundle 'a' is empty",
    ),
    "dump-env-a-list": _make_bad(
        _add_dump_keys("env: [A]"),
        "6:41: [lockfile] env of dump of bundle 'a' must be a mapping, not a list",
    ),
    "dump-timeout-zero": _make_bad(
        _add_dump_keys("timeout: 0"),
        "6:45: [lockfile] timeout of dump of bundle 'a' is 0; it must lie in 0.001 to 86,400",
    ),
    "dump-timeout-day": _make_bad(
        _add_dump_keys("timeout: 86401"),
        "6:45: [lockfile] timeout of dump of bundle 'a' is 86401; it must lie in 0.001 to 86,400",
    ),
    "dump-timeout-sexagesimal": _make_bad(
        _add_dump_keys("timeout: 1:30"),
        "6:45: [lockfile] timeout of dump of bundle 'a' is 1:30; write it in digits, as "
        "42, 0.00001 or 1e-5",
    ),
    "dump-timeout-words": _make_bad(
        _add_dump_keys("timeout: 5 minutes"),
        "6:45: [lockfile] timeout of dump of bundle 'a' must be a number, not the "
        "string '5 minutes'",
    ),
    "dump-timeout-nan": _make_bad(
        _add_dump_keys("timeout: .nan"),
        "6:45: [lockfile] timeout of dump of bundle 'a' is .nan; write it in digits, as "
        "42, 0.00001 or 1e-5",
    ),
    "dump-timeout-quoted": _make_bad(
        _add_dump_keys('timeout: "5"'),
        "6:45: [lockfile] timeout of dump of bundle 'a' must be a number, not the string '5'",
    ),
    "dump-cases-a-list": _make_bad(
        _add_dump_keys("cases: [x]"),
        "6:43: [lockfile] cases of dump of bundle 'a' must be a mapping, not a list",
    ),
    "dump-cases-in-a-case": _make_bad(
        _add_dump_keys("cases: {x: {cases: {}}}"),
        "6:48: [lockfile] dump of bundle 'a' for case 'x' has no key 'cases'; known: "
        "package, crate, command, example, args, features, profile, cwd, env, timeout, "
        "build-timeout",
    ),
    "dump-case-two-programs": _make_bad(
        _add_dump_keys("cases: {x: {package: q, command: [c]}}"),
        "6:47: [lockfile] dump of bundle 'a' for case 'x': exactly one of package, "
        "crate and command is needed, found package and command",
    ),
    "dump-case-of-a-command": _make_bad(
        _replace_dump("{command: [c], cases: {x: {features: [f]}, y: {package: q}}}"),
        (
            "6:37: [lockfile] dump of bundle 'a' for case 'x': features cannot stand beside "
            "command, which holds all its words itself"
        ),
        ("6:57: [lockfile] dump of bundle 'a' for case 'y': package needs the key 'example'"),
    ),
    "dump-wrong-base-told-once": _make_bad(
        _replace_dump("{example: e, cases: {x: {timeout: 5}}}"),
        "6:11: [lockfile] dump of bundle 'a': exactly one of package, crate and command "
        "is needed, found none",
    ),
    "bounds-a-list": _make_bad(
        _append("    bounds: [x]"),
        "7:13: [lockfile] bounds of bundle 'a' must be a mapping, not a list",
    ),
    "bounds-measure": _make_bad(
        _append("    bounds: {x: {max-abs: 1e-5}}"),
        "7:18: [lockfile] bounds of bundle 'a' for case 'x' has no key 'max-abs'; "
        "known: exact, max_abs, relative, ulp, cosine",
    ),
    "bounds-number": _make_bad(
        _append("    bounds: {x: {max_abs: tiny}}"),
        "7:27: [lockfile] max_abs of bounds of bundle 'a' for case 'x' must be a "
        "number, not the string 'tiny'",
    ),
    "bounds-negative": _make_bad(
        _append("    bounds: {x: {max_abs: -1e-5}}"),
        "7:27: [lockfile] max_abs of bounds of bundle 'a' for case 'x' is -1e-5; it "
        "must lie in 0 to 1e+300",
    ),
    "bounds-infinite": _make_bad(
        _append("    bounds: {x: {max_abs: .inf}}"),
        "7:27: [lockfile] max_abs of bounds of bundle 'a' for case 'x' is .inf; write "
        "it in digits, as 42, 0.00001 or 1e-5",
    ),
    "bounds-overflow": _make_bad(
        _append("    bounds: {x: {ulp: 1e999}}"),
        "7:23: [lockfile] ulp of bounds of bundle 'a' for case 'x' is 1e999; it must "
        "lie in 0 to 1e+300",
    ),
    "bounds-comma": _make_bad(
        _append('    bounds: {x: {max_abs: "0,1"}}'),
        "7:27: [lockfile] max_abs of bounds of bundle 'a' for case 'x' must be a "
        "number, not the string '0,1'",
    ),
    "bounds-underscore": _make_bad(
        _append("    bounds: {x: {max_abs: 1_0}}"),
        "7:27: [lockfile] max_abs of bounds of bundle 'a' for case 'x' is 1_0; write it "
        "in digits, as 42, 0.00001 or 1e-5",
    ),
    "bounds-hex": _make_bad(
        _append("    bounds: {x: {ulp: 0x10}}"),
        "7:23: [lockfile] ulp of bounds of bundle 'a' for case 'x' is 0x10; write it in "
        "digits, as 42, 0.00001 or 1e-5",
    ),
    "bounds-cosine": _make_bad(
        _append("    bounds: {x: {cosine: 1.5}}"),
        "7:26: [lockfile] cosine of bounds of bundle 'a' for case 'x' is 1.5; it must "
        "lie in 0 to 1",
    ),
    "bounds-exact-false": _make_bad(
        _append("    bounds: {x: {exact: false}}"),
        "7:25: [lockfile] exact of bounds of bundle 'a' for case 'x' can only be true; "
        "leave it out otherwise",
    ),
    "bounds-exact-yes": _make_bad(
        _append("    bounds: {x: {exact: yes}}"),
        "7:25: [lockfile] exact of bounds of bundle 'a' for case 'x' must be true or "
        "false, not the value yes",
    ),
    "bounds-exact-and": _make_bad(
        _append("    bounds: {x: {exact: true, ulp: 1}}"),
        "7:17: [lockfile] bounds of bundle 'a' for case 'x': exact excludes the other measures",
    ),
    "bounds-case-twice": _make_bad(
        _append("    bounds: {x: {ulp: 1}, x: {ulp: 2}}"),
        "7:27: [lockfile] the key 'x' of bounds of bundle 'a' stands in line 7 already",
    ),
    "bounds-true": _make_bad(
        _append("    bounds: {x: {ulp: true}}"),
        "7:23: [lockfile] ulp of bounds of bundle 'a' for case 'x' must be a number, "
        "not the value true",
    ),
    "known-no-reason": _make_bad(
        _append('    known-failures: {x: ""}'),
        "7:25: [lockfile] the reason of 'x' in known-failures of bundle 'a' is empty",
    ),
    "known-reason-nothing": _make_bad(
        _append("    known-failures: {x: }"),
        "7:24: [lockfile] the reason of 'x' in known-failures of bundle 'a' must be a "
        "string, not nothing",
    ),
    "known-a-list": _make_bad(
        _append("    known-failures: [x]"),
        "7:21: [lockfile] known-failures of bundle 'a' must be a mapping, not a list",
    ),
    "known-issue-number": _make_bad(
        _append("    known-failures: {x: 12}"),
        "7:25: [lockfile] the reason of 'x' in known-failures of bundle 'a' must be a "
        "string, not the number 12; quote it",
    ),
    "known-empty-pattern": _make_bad(
        _append('    known-failures: {"": why}'),
        "7:22: [lockfile] a key of known-failures of bundle 'a' is empty",
    ),
    "locked-nothing": _make_bad(
        _append("    locked:"),
        "7:12: [lockfile] locked of bundle 'a' must be a mapping, not nothing",
    ),
    "locked-empty": _make_bad(
        _append("    locked: {}"), "7:13: [lockfile] locked of bundle 'a' needs the key 'sha256'"
    ),
    "locked-unknown": _make_bad(
        _add_locked_keys('md5: "x"'),
        "7:97: [lockfile] locked of bundle 'a' has no key 'md5'; known: rev, sha256, "
        "size, files, unpacked, tree",
    ),
    "locked-short": _make_bad(
        _append(f'    locked: {{sha256: "sha256:{DIGEST[:12]}"}}'),
        "7:22: [lockfile-digest] sha256 of locked of bundle 'a' is "
        "'sha256:0123456789ab'; it must be 'sha256:' and 64 lower-case hex digits, not "
        "12",
    ),
    "locked-no-prefix": _make_bad(
        _append(f'    locked: {{sha256: "{DIGEST}"}}'),
        "7:22: [lockfile-digest] sha256 of locked of bundle 'a' is "
        "'0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'; it must be "
        "'sha256:' and 64 lower-case hex digits",
    ),
    "locked-upper": _make_bad(
        _append(f'    locked: {{sha256: "sha256:{DIGEST.upper()}"}}'),
        "7:22: [lockfile-digest] sha256 of locked of bundle 'a' is "
        "'sha256:0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF'; it "
        "must be 'sha256:' and 64 lower-case hex digits",
    ),
    "locked-number": _make_bad(
        _append("    locked: {sha256: 0123456}"),
        "7:22: [lockfile] sha256 of locked of bundle 'a' must be a string, not the "
        "number 0123456; quote it",
    ),
    "locked-wrong-prefix": _make_bad(
        _append(f'    locked: {{sha256: "h1:{DIGEST}"}}'),
        "7:22: [lockfile-digest] sha256 of locked of bundle 'a' is "
        "'h1:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'; it must "
        "be 'sha256:' and 64 lower-case hex digits",
    ),
    "locked-rev-of-a-path": _make_bad(
        _add_locked_keys(f'rev: "git:{DIGEST[:40]}"'),
        "7:97: [lockfile] rev of locked of bundle 'a' is for hf:// sources only",
    ),
    "locked-rev-without-a-source": _make_bad(
        _add_locked_keys('rev: "git:0"').replace('    source: "x.tar"\n', ""),
        "4:5: [lockfile] bundle 'a' needs the key 'source'",
        "6:102: [lockfile-digest] rev of locked of bundle 'a' is 'git:0'; it must be "
        "'git:' and 40 lower-case hex digits, not 1",
    ),
    "locked-rev-short": _make_bad(
        _replace_source('"hf://o/r@main/x.tar"')
        + f'    locked: {{sha256: "sha256:{DIGEST}", rev: "git:{DIGEST[:7]}"}}\n',
        "7:102: [lockfile-digest] rev of locked of bundle 'a' is 'git:0123456'; it must "
        "be 'git:' and 40 lower-case hex digits, not 7",
    ),
    "locked-tree": _make_bad(
        _add_locked_keys(f'tree: "sha256:{DIGEST}"'),
        "7:103: [lockfile-digest] tree of locked of bundle 'a' is "
        "'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'; it "
        "must be 'h1:' and 64 lower-case hex digits",
    ),
    "locked-size-negative": _make_bad(
        _add_locked_keys("size: -1"),
        "7:103: [lockfile] size of locked of bundle 'a' is -1; it must lie in 0 to 8,589,934,592",
    ),
    "locked-size-large": _make_bad(
        _add_locked_keys("size: 8589934593"),
        "7:103: [lockfile] size of locked of bundle 'a' is 8589934593; it must lie in 0 "
        "to 8,589,934,592",
    ),
    "locked-files-many": _make_bad(
        _add_locked_keys("files: 100001"),
        "7:104: [lockfile] files of locked of bundle 'a' is 100001; it must lie in 0 to 100,000",
    ),
    "locked-size-fraction": _make_bad(
        _add_locked_keys("size: 1.5"),
        "7:103: [lockfile] size of locked of bundle 'a' must be a whole number, not 1.5",
    ),
    "locked-size-string": _make_bad(
        _add_locked_keys('size: "12"'),
        "7:103: [lockfile] size of locked of bundle 'a' must be a number, not the string '12'",
    ),
    "locked-size-exponent": _make_bad(
        _add_locked_keys("size: 1e3"),
        "7:103: [lockfile] size of locked of bundle 'a' must be a whole number, not 1000.0",
    ),
    "locked-size-whole-float": _make_bad(
        _add_locked_keys("size: 12.0"),
        "7:103: [lockfile] size of locked of bundle 'a' must be a whole number, not 12.0",
    ),
    "locked-size-many-digits": _make_bad(
        _add_locked_keys(f"size: {'1' * 5000}"),
        "7:103: [lockfile] size of locked of bundle 'a' is "
        "11111111111111111111111111111111111111111111111111111111111…; write it in "
        "digits, as 42, 0.00001 or 1e-5",
    ),
    "several": _make_bad(
        """\
schema: 1
bundles:
  b:
    suite: tensors
    source: 12
    dump: {package: p}
    locked: {sha256: "sha256:abc"}
  A:
    source: "x.tar"
    colour: red
    suite: other
    dump: {command: ["{x}"]}
extra: 1
""",
        ("5:13: [lockfile] source of bundle 'b' must be a string, not the number 12; quote it"),
        "6:11: [lockfile] dump of bundle 'b': package needs the key 'example'",
        (
            "7:22: [lockfile-digest] sha256 of locked of bundle 'b' is 'sha256:abc'; it "
            "must be 'sha256:' and 64 lower-case hex digits, not 3"
        ),
        (
            "8:3: [lockfile] a bundle's id is 'A'; it must be lower-case letters, digits, "
            "'.', '_' and '-', at most 100, a letter or digit first"
        ),
        (
            "10:5: [lockfile] bundle 'A' has no key 'colour'; known: why, source, mirrors, "
            "suite, dump, options, bounds, known-failures, locked"
        ),
        (
            "11:12: [lockfile] suite of bundle 'A' is 'other'; it must be one of "
            "dataloader, serialize, pipeline, tensors"
        ),
        (
            "12:22: [lockfile] item 1 of command of dump of bundle 'A' has the unknown "
            "placeholder '{x}'; known: {case}, {fixture_dir}, {bundle_dir}, {output_dir}, "
            "{group}, {checkpoint}, {seed}, {epoch}, {start_batch}; a brace itself is "
            "written twice"
        ),
        "13:1: [lockfile] the lockfile has no key 'extra'; known: schema, bundles",
    ),
}

FULL = f"""\
# yaml-language-server: $schema=fixtures.lock.schema.json
x-owner: {{team: "data", yes-or-no: [1, 2.5, true, null]}}
schema: 1
bundles:
  serialize-parity-v1:
    x-note: "kept for us"
    why: "the loaders"
    source: "hf://datasets/owner/serialize-parity-v1@refs%2Fpr%2F1/folder/bundle.tar"
    mirrors: ["https://mirror.example.org/bundle.tar", "http://127.0.0.1:8000/bundle.tar"]
    suite: serialize
    dump:
      package: ferrotorch-serialize@0.6.2
      example: serialize_{{group}}_dump
      args: ["--target", "{{case}}", "{{fixture_dir}}/in", "{{output_dir}}", "{{{{}}}}", ""]
      features: [onnx, "dep:half", serde/std]
      profile: dist
      cwd: crates/serialize
      env: {{RUST_LOG: debug, EMPTY: ""}}
      timeout: 90.5
      build-timeout: 1e3
      cases:
        onnx: {{example: onnx_dump, timeout: 1800}}
        gguf: {{crate: "serialize@0.6.2-rc.1+b", features: []}}
        pth: {{command: ["python", "dump.py", "{{case}}", "{{output_dir}}"], env: {{A: b}}}}
    options: {{order: free, deep: {{list: [1, "2"]}}}}
    bounds:
      gguf: {{max_abs: 0.00001, relative: 1e-5, ulp: 4, cosine: 0.9999}}
      pth: {{exact: true}}
      onnx: {{max_abs: "1e-5", relative: .5, ulp: 0}}
    known-failures:
      gguf/blk.0.attn_q.weight: "K-quants: #123"
      "onnx:values": "opset 17"
      "*:nan": 'upstream'
    locked:
      rev: "git:{DIGEST[:40]}"
      sha256: "sha256:{DIGEST}"
      size: 48240640
      files: 232
      unpacked: 48091136
      tree: "h1:{DIGEST}"
"""

GOOD: dict[str, bytes] = {
    name: text.encode()
    for name, text in {
        "smallest": BASE,
        "full": FULL,
        "two-bundles": BASE + BASE.split("bundles:\n")[1].replace("  a:", "  b.c-d_0:"),
        "byte-order-mark": f"\ufeff{BASE}",
        "crlf": BASE.replace("\n", "\r\n"),
        "no-final-newline": BASE.rstrip(),
        "document-start": f"%YAML 1.2\n---\n{BASE}...\n",
        "json": (
            '{"schema": 1, "bundles": {"a": {"source": "x.tar", "suite": "tensors",'
            ' "dump": {"command": ["x"]}}}}'
        ),
        "extensions": f"x-a: 1\n{BASE}    x-b: [{{}}]\n",
        "source-up": _replace_source('"../other/x.tar"'),
        "source-unquoted": _replace_source("hf://o/r@v1.0/x.tar"),
        "source-https": _replace_source('"https://example.org:8443/a%20b.tar?x=1"'),
        "source-loopback": _replace_source('"http://localhost:8000/x.tar"'),
        "source-loopback-6": _replace_source('"http://[::1]:8000/x.tar"'),
        "source-not-ascii": _replace_source('"bündel/ä b.tar"'),
        "locked-sha256-only": _append(f'    locked: {{sha256: "sha256:{DIGEST}"}}'),
        "locked-unquoted": _append(f"    locked: {{sha256: sha256:{DIGEST}}}"),
        "command-alone": _replace_dump('{command: ["./dump", "{case}"], timeout: 5, cwd: tools}'),
        "command-with-packages-for-cases": _replace_dump(
            '{command: ["x"], cases: {y: {package: q, example: e, args: []}}}'
        ),
        "example-with-case": _replace_dump('{package: p, example: "{case}_dump-{group}"}'),
        "empty-forms": _append(
            "    mirrors: []\n    options: {}\n    bounds: {x: {}}\n    known-failures: {}"
        ),
        "block-scalars": _append("    why: |\n      one\n      =======\n      two"),
        "comment-as-a-conflict": f"# =======\n{BASE}",
    }.items()
}
