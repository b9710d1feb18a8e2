"""Provide lockfiles for tests, good ones and bad ones."""

from __future__ import annotations

BASE = """\
schema: 1
bundles:
  a:
    source: "x.tar"
    suite: tensors
    dump: {package: p, example: e}
"""
DIGEST = "0123456789abcdef" * 4


def _append(text: str) -> str:
    return f"{BASE}{text}\n"


def _replace_source(text: str) -> str:
    return BASE.replace('"x.tar"', text)


def _replace_dump(text: str) -> str:
    return BASE.replace("{package: p, example: e}", text)


def _add_dump_keys(text: str) -> str:
    return _replace_dump(f"{{package: p, example: e, {text}}}")


def _use_schema_2(text: str) -> str:
    return text.replace("schema: 1", "schema: 2")


def _add_locked_keys(text: str) -> str:
    return _append(f'    locked: {{sha256: "sha256:{DIGEST}", {text}}}')


_BAD: dict[str, str | bytes] = {
    "empty": "",
    "only-comments": "# nothing yet\n",
    "malformed": BASE + "  b: {\n",
    "tab-indentation": "schema: 1\nbundles:\n\ta: 1\n",
    "merge-conflict": "schema: 1\n<<<<<<< HEAD\nbundles: {}\n=======\nbundles: {}\n>>>>>>> other\n",
    "merge-conflict-crlf": "schema: 1\r\n=======\r\nbundles: {}\r\n",
    "several-documents": BASE + "---\n" + BASE,
    "anchor": _replace_source('&s "x.tar"'),
    "alias": _replace_source("*s"),
    "tag": _replace_source('!!str "x.tar"'),
    "local-tag": _replace_source("!x y"),
    "anchor-on-mapping": "schema: 1\nbundles: &b {}\n",
    "merge-key": BASE + "    <<: {why: w}\n",
    "merge-key-in-options": _append("    options: {<<: {order: free}}"),
    "too-large": "schema: 1\nbundles: {}\n#" + "x" * 65536,
    "too-deep": "schema: 1\nbundles: " + "[" * 16,
    "not-utf8": b"schema: 1\nbundles: {\xc3\xa4\xff: 1}\n",
    "utf16": b"\xff\xfe" + BASE.encode("utf-16-le"),
    "control-character": _replace_source('"x\x1b[31m.tar"'),
    "nul": b"schema: 1\0\n",
    "line-separator": "schema: 1 # \u2028bundles: {}\n",
    "bidi-override": "schema: 1 # \u202e\n",
    "escape-out-of-range": _replace_source(r'"\U00110000"'),
    "yaml-version-out-of-range": "%YAML 1." + "9" * 5000 + "\n---\n" + BASE,
    "surrogate-escape": _replace_source(r'"\ud83d\ude00"'),
    "nul-escape": _replace_source(r'"x\0.tar"'),
    "not-a-mapping": "- schema\n",
    "a-scalar": "schema\n",
    "no-schema": BASE.replace("schema: 1\n", ""),
    "no-bundles": "schema: 1\n",
    "bundles-nothing": "schema: 1\nbundles:\n",
    "bundles-empty": "schema: 1\nbundles: {}\n",
    "bundles-a-list": "schema: 1\nbundles: [a]\n",
    "schema-newer": BASE.replace("schema: 1", "schema: 3\nprofiles: {}"),
    "schema-string": BASE.replace("schema: 1", 'schema: "1"'),
    "schema-zero": BASE.replace("schema: 1", "schema: 0"),
    "schema-true": BASE.replace("schema: 1", "schema: true"),
    "schema-octal": BASE.replace("schema: 1", "schema: 01"),
    "schema-float": BASE.replace("schema: 1", "schema: 1.0"),
    "unknown-key-at-the-top": BASE + "profiles: {}\n",
    "duplicate-key-at-the-top": BASE + "schema: 1\n",
    "duplicate-extension": "x-a: 1\nx-a: 2\n" + BASE,
    "duplicate-in-an-extension": "x-a: {b: 1, b: 2}\n" + BASE,
    "key-a-number": BASE + "1: 2\n",
    "key-a-list": BASE + "? [a]\n: 2\n",
    "key-empty": BASE + '"": 2\n',
    "id-upper-case": BASE.replace("  a:", "  Big:"),
    "id-too-long": BASE.replace("  a:", "  " + "a" * 101 + ":"),
    "id-a-number": BASE.replace("  a:", "  1:"),
    "duplicate-bundle": BASE + "  a: {}\n",
    "bundle-nothing": "schema: 1\nbundles:\n  a:\n",
    "bundle-empty": "schema: 1\nbundles:\n  a: {}\n",
    "unknown-key": _append("    sources: []"),
    "duplicate-key": _append("    suite: serialize"),
    "why-not-a-string": _append("    why: [a]"),
    "why-empty": _append('    why: ""'),
    "why-yes": _append("    why: yes"),
    "suite-unknown": BASE.replace("tensors", "tensor"),
    "suite-nothing": BASE.replace(" tensors", ""),
    "options-a-list": _append("    options: [order]"),
    "options-duplicate": _append("    options: {order: free, order: strict}"),
    "options-yes": _append("    options: {order: yes}"),
    "options-date": _append("    options: {order: 2020-01-01}"),
    "options-octal": _append("    options: {seed: 0123}"),
    "source-absolute": _replace_source('"/srv/x.tar"'),
    "source-home": _replace_source('"~/x.tar"'),
    "source-drive": _replace_source('"C:/x.tar"'),
    "source-backslash": _replace_source(r"'a\x.tar'"),
    "source-http": _replace_source('"http://example.org/x.tar"'),
    "source-ftp": _replace_source('"ftp://example.org/x.tar"'),
    "source-file": _replace_source('"file:///srv/x.tar"'),
    "source-credentials": _replace_source('"https://me:secret@example.org/x.tar"'),
    "source-user": _replace_source('"https://me@example.org/x.tar"'),
    "source-no-host": _replace_source('"https:///x.tar"'),
    "source-port": _replace_source('"https://example.org:99999/x.tar"'),
    "source-ipv6": _replace_source('"https://[::1/x.tar"'),
    "source-space": _replace_source('"https://example.org/a b.tar"'),
    "source-loopback-look-alike": _replace_source('"http://localhost.example.org/x.tar"'),
    "source-hf-no-ref": _replace_source('"hf://o/r/x.tar"'),
    "source-hf-no-path": _replace_source('"hf://o/r@main"'),
    "source-hf-query": _replace_source('"hf://o/r@main/x.tar?a=b"'),
    "source-empty": _replace_source('""'),
    "source-number": _replace_source("12"),
    "source-line-feed": _replace_source(r'"x\n.tar"'),
    "mirror-hf": _append('    mirrors: ["hf://o/r@main/x.tar"]'),
    "mirror-path": _append('    mirrors: ["x.tar"]'),
    "mirror-http": _append('    mirrors: ["http://example.org/x.tar"]'),
    "mirrors-a-string": _append('    mirrors: "https://example.org/x.tar"'),
    "mirror-credentials": _append('    mirrors: ["https://a:b@example.org/x.tar"]'),
    "dump-a-list": _replace_dump("[p, e]"),
    "dump-nothing": _replace_dump(""),
    "dump-empty": _replace_dump("{}"),
    "dump-no-example": _replace_dump("{package: p}"),
    "dump-no-program": _replace_dump("{example: e}"),
    "dump-two-programs": _replace_dump('{package: p, crate: "c@1.2.3", example: e}'),
    "dump-three-programs": _replace_dump(
        '{package: p, crate: "c@1.2.3", command: [x], example: e}'
    ),
    "dump-command-and-example": _replace_dump(
        "{command: [x], example: e, args: [], features: [f]}"
    ),
    "dump-command-and-profile": _replace_dump("{command: [x], profile: dev, build-timeout: 5}"),
    "dump-command-empty": _replace_dump("{command: []}"),
    "dump-command-first-word-empty": _replace_dump('{command: ["", x]}'),
    "dump-command-a-string": _replace_dump("{command: python dump.py}"),
    "dump-unknown-key": _add_dump_keys("flags: []"),
    "dump-extension": _add_dump_keys("x-a: 1"),
    "dump-package-an-option": _replace_dump('{package: "--all", example: e}'),
    "dump-example-an-option": _replace_dump('{package: p, example: "-e"}'),
    "dump-example-path": _replace_dump("{package: p, example: a/b}"),
    "dump-example-empty": _replace_dump('{package: p, example: ""}'),
    "dump-example-output": _replace_dump('{package: p, example: "e_{output_dir}"}'),
    "dump-crate-not-exact": _replace_dump('{crate: "c@1.2", example: e}'),
    "dump-crate-no-version": _replace_dump("{crate: c, example: e}"),
    "dump-placeholder": _add_dump_keys('args: ["{cases}"]'),
    "dump-lone-brace": _add_dump_keys('args: ["{case"]'),
    "dump-json-word": _add_dump_keys("""args: ['{"a": 1}']"""),
    "dump-half-escaped": _add_dump_keys('args: ["{{case}"]'),
    "dump-args-a-number": _add_dump_keys('args: ["--seed", 42]'),
    "dump-feature": _add_dump_keys('features: ["a b"]'),
    "dump-profile": _add_dump_keys('profile: "--dev"'),
    "dump-cwd-up": _add_dump_keys("cwd: ../other"),
    "dump-cwd-absolute": _add_dump_keys("cwd: /srv"),
    "dump-env-number": _add_dump_keys("env: {N: 1}"),
    "dump-env-name": _add_dump_keys('env: {"A=B": x}'),
    "dump-env-empty-name": _add_dump_keys('env: {"": x}'),
    "dump-env-a-list": _add_dump_keys("env: [A]"),
    "dump-timeout-zero": _add_dump_keys("timeout: 0"),
    "dump-timeout-day": _add_dump_keys("timeout: 86401"),
    "dump-timeout-sexagesimal": _add_dump_keys("timeout: 1:30"),
    "dump-timeout-words": _add_dump_keys("timeout: 5 minutes"),
    "dump-timeout-nan": _add_dump_keys("timeout: .nan"),
    "dump-timeout-quoted": _add_dump_keys('timeout: "5"'),
    "dump-cases-a-list": _add_dump_keys("cases: [x]"),
    "dump-cases-in-a-case": _add_dump_keys("cases: {x: {cases: {}}}"),
    "dump-case-two-programs": _add_dump_keys("cases: {x: {package: q, command: [c]}}"),
    "dump-case-of-a-command": _replace_dump(
        "{command: [c], cases: {x: {features: [f]}, y: {package: q}}}"
    ),
    "dump-wrong-base-told-once": _replace_dump("{example: e, cases: {x: {timeout: 5}}}"),
    "bounds-a-list": _append("    bounds: [x]"),
    "bounds-measure": _append("    bounds: {x: {max-abs: 1e-5}}"),
    "bounds-number": _append("    bounds: {x: {max_abs: tiny}}"),
    "bounds-negative": _append("    bounds: {x: {max_abs: -1e-5}}"),
    "bounds-infinite": _append("    bounds: {x: {max_abs: .inf}}"),
    "bounds-overflow": _append("    bounds: {x: {ulp: 1e999}}"),
    "bounds-comma": _append('    bounds: {x: {max_abs: "0,1"}}'),
    "bounds-underscore": _append("    bounds: {x: {max_abs: 1_0}}"),
    "bounds-hex": _append("    bounds: {x: {ulp: 0x10}}"),
    "bounds-cosine": _append("    bounds: {x: {cosine: 1.5}}"),
    "bounds-exact-false": _append("    bounds: {x: {exact: false}}"),
    "bounds-exact-yes": _append("    bounds: {x: {exact: yes}}"),
    "bounds-exact-and": _append("    bounds: {x: {exact: true, ulp: 1}}"),
    "bounds-atol-in-schema-1": _append("    bounds: {x: {atol: 1e-5}}"),
    "bounds-close-and-rtol": _use_schema_2(_append("    bounds: {x: {close: true, rtol: 0.1}}")),
    "bounds-close-false": _use_schema_2(_append("    bounds: {x: {close: false}}")),
    "bounds-case-twice": _append("    bounds: {x: {ulp: 1}, x: {ulp: 2}}"),
    "bounds-true": _append("    bounds: {x: {ulp: true}}"),
    "known-no-reason": _append('    known-failures: {x: ""}'),
    "known-blank-reason": _append('    known-failures: {x: " "}'),
    "known-reason-nothing": _append("    known-failures: {x: }"),
    "known-a-list": _append("    known-failures: [x]"),
    "known-issue-number": _append("    known-failures: {x: 12}"),
    "known-empty-pattern": _append('    known-failures: {"": why}'),
    "locked-nothing": _append("    locked:"),
    "locked-empty": _append("    locked: {}"),
    "locked-unknown": _add_locked_keys('md5: "x"'),
    "locked-short": _append(f'    locked: {{sha256: "sha256:{DIGEST[:12]}"}}'),
    "locked-no-prefix": _append(f'    locked: {{sha256: "{DIGEST}"}}'),
    "locked-upper": _append(f'    locked: {{sha256: "sha256:{DIGEST.upper()}"}}'),
    "locked-number": _append("    locked: {sha256: 0123456}"),
    "locked-wrong-prefix": _append(f'    locked: {{sha256: "h1:{DIGEST}"}}'),
    "locked-rev-of-a-path": _add_locked_keys(f'rev: "git:{DIGEST[:40]}"'),
    "locked-rev-without-a-source": _add_locked_keys('rev: "git:0"').replace(
        '    source: "x.tar"\n', ""
    ),
    "locked-rev-short": _replace_source('"hf://o/r@main/x.tar"')
    + f'    locked: {{sha256: "sha256:{DIGEST}", rev: "git:{DIGEST[:7]}"}}\n',
    "locked-tree": _add_locked_keys(f'tree: "sha256:{DIGEST}"'),
    "locked-size-negative": _add_locked_keys("size: -1"),
    "locked-size-large": _add_locked_keys("size: 8589934593"),
    "locked-files-many": _add_locked_keys("files: 100001"),
    "locked-size-fraction": _add_locked_keys("size: 1.5"),
    "locked-size-string": _add_locked_keys('size: "12"'),
    "locked-size-exponent": _add_locked_keys("size: 1e3"),
    "locked-size-whole-float": _add_locked_keys("size: 12.0"),
    "locked-size-many-digits": _add_locked_keys(f"size: {'1' * 5000}"),
    "several": """\
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
    "pass-env-in-schema-1": _add_dump_keys("pass-env: [HF_TOKEN]"),
    "pass-env-of-a-case-in-schema-1": _add_dump_keys("cases: {x: {pass-env: [A]}, y: {}}"),
    "pass-env-inherited-in-schema-1": _add_dump_keys("pass-env: [A], cases: {x: {}, y: {}}"),
    "pass-env-name": _use_schema_2(_add_dump_keys('pass-env: ["A=B", "", "1A", "A-B"]')),
    "pass-env-text": _use_schema_2(_add_dump_keys("pass-env: HF_TOKEN")),
}
BAD = {name: text if isinstance(text, bytes) else text.encode() for name, text in _BAD.items()}

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
