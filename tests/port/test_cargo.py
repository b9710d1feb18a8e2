"""Real cargo on small workspaces: what is built, how it is run, and how failures read."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from parity.errors import DumpError, Location, Problem
from parity.lockfile import Dump
from parity.port import cargo, process
from parity.port.cargo.call import CargoOutput, explain_failure

cargo_test = pytest.mark.cargo
posix = pytest.mark.skipif(os.name == "nt", reason="the fake programs are shell scripts")

LOCK = Location(Path("fixtures.lock.yaml"), 7, 5)

SHOW = """
    fn main() {
        let cwd = std::env::current_dir().unwrap();
        println!("{}", cwd.file_name().unwrap().to_str().unwrap());
        for name in ["GREETING", "FROM_DUMP", "CARGO_MANIFEST_DIR", "CARGO_TERM_COLOR"] {
            println!("{name}={}", std::env::var(name).unwrap_or("-".into()));
        }
        println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>());
    }
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")


def package(name: str, more: str = "") -> str:
    return f'[package]\nname = "{name}"\nversion = "0.4.2"\nedition = "2021"\n{more}'


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A workspace whose path holds a space, with one member."""
    root = tmp_path / "my repo"
    write(
        root,
        {
            "Cargo.toml": '[workspace]\nmembers = ["port"]\nresolver = "2"\n',
            "port/Cargo.toml": package("port", "[features]\nloud = []\n"),
            "port/src/lib.rs": "",
            "port/examples/show.rs": SHOW,
        },
    )
    return root


def build(repo: Path, example: str = "show", **fields: Any) -> cargo.Program:
    options = {name: fields.pop(name) for name in tuple(fields) if name in OPTIONS}
    given = {"package": "port", "profile": "dev", "where": {"example": LOCK}, **fields}
    options = {**OPTIONS, "crates": repo.parent / "crates", **options}
    return cargo.build_program(Dump(example=example, **given), example, repo=repo, **options)


OPTIONS: dict[str, Any] = {
    "toolchain": "",
    "cargo_args": (),
    "offline": True,
    "crates": Path(),
    "deadline": None,
    "on_progress": lambda _line: None,
}


def failure(repo: Path, example: str = "show", **fields: Any) -> tuple[Problem, ...]:
    with pytest.raises(DumpError) as caught:
        build(repo, example, **fields)
    return caught.value.problems


def spoken(program: cargo.Program, *args: str) -> list[str]:
    result = process.run((*program.argv, *args), cwd=program.cwd, env=program.env, timeout=60)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


@cargo_test
def test_the_program_gets_what_cargo_run_gives(repo: Path) -> None:
    write(repo, {".cargo/config.toml": '[env]\nGREETING = "hello there"\n'})

    program = build(repo, env={"FROM_DUMP": "yes"})

    by_cargo = ("cargo", "run", "-q", "-p", "port", "--example", "show", "--", "a b", "{c}")
    env = process.build_environment({"FROM_DUMP": "yes"})
    expected = process.run(by_cargo, cwd=repo, env=env, timeout=60)
    assert Path(program.argv[0]).is_file()
    assert spoken(program, "a b", "{c}") == expected.stdout.splitlines()
    assert spoken(program, "a b") == [
        "my repo",
        "GREETING=hello there",
        "FROM_DUMP=yes",
        f"CARGO_MANIFEST_DIR={repo / 'port'}",
        f"CARGO_TERM_COLOR={os.environ.get('CARGO_TERM_COLOR', '-')}",
        '["a b"]',
    ]
    assert program.version == "0.4.2"
    assert program.port == {"package": "port", "version": "0.4.2"}


@cargo_test
def test_features_and_cargo_args_reach_build_and_run(repo: Path) -> None:
    loud = 'fn main() { println!("{} {}", cfg!(feature = "loud"), cfg!(debug_assertions)); }'
    write(repo, {"port/examples/show.rs": loud})

    assert spoken(build(repo)) == ["false true"]
    assert spoken(build(repo, features=("loud",))) == ["true true"]
    assert spoken(build(repo, profile="release", cargo_args=("--all-features",))) == ["true false"]


@cargo_test
def test_each_variant_of_an_example_keeps_its_own_executable(repo: Path) -> None:
    """Cargo writes them all to one path."""
    write(
        repo,
        {
            "Cargo.toml": '[workspace]\nmembers = ["port", "other"]\nresolver = "2"\n',
            "port/examples/show.rs": 'fn main() { println!("port {}", cfg!(feature = "loud")); }',
            "other/Cargo.toml": package("other", ""),
            "other/src/lib.rs": "",
            "other/examples/show.rs": 'fn main() { println!("other"); }',
        },
    )
    variants = [{}, {"features": ("loud",)}, {"package": "other"}, {"profile": "release"}, {}]

    programs = [build(repo, **variant) for variant in variants]

    assert [spoken(program) for program in programs] == [
        ["port false"],
        ["port true"],
        ["other"],
        ["port false"],
        ["port false"],
    ]
    paths = [Path(program.argv[0]) for program in programs]
    assert len({*paths}) == 4, "the last is the first"
    assert {path.parent for path in paths[:3]} == {repo / "target/debug/examples"}, "for $ORIGIN"


@cargo_test
@posix
def test_each_variant_keeps_its_own_executable_under_a_runner(repo: Path) -> None:
    loud = 'fn main() { println!("{}", cfg!(feature = "loud")); }'
    write(repo, {"port/examples/show.rs": loud})
    write(repo, {".cargo/config.toml": "[target.'cfg(all())']\nrunner = ['env']\n"})

    quiet, loud_one = build(repo), build(repo, features=("loud",))

    with ThreadPoolExecutor() as pool:
        said = list(pool.map(spoken, [quiet, loud_one] * 4))
    assert said == [["false"], ["true"]] * 4


@cargo_test
def test_an_executable_is_copied_where_no_link_can_be_made(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", fail)
    first = build(repo, env={"A": "1"})
    second = build(repo, env={"A": "2"})

    assert first.argv != second.argv
    assert spoken(first)[2] == spoken(second)[2] == "FROM_DUMP=-"


@cargo_test
def test_only_the_program_gets_the_secrets_that_its_entry_passes(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_of_the_job")
    monkeypatch.setenv("GITHUB_TOKEN", "another_secret")
    read = 'std::env::var("HF_TOKEN").is_ok(), std::env::var("GITHUB_TOKEN").is_ok()'
    script = f'fn main() {{ println!("cargo:rustc-env=SEEN={{}} {{}}", {read}); }}'
    show = f'fn main() {{ println!("{{}} {{}} {{}}", env!("SEEN"), {read}); }}'
    write(repo, {"port/build.rs": script, "port/examples/show.rs": show})

    # This one first: cargo does not run the build script again for the other.
    assert spoken(build(repo, pass_env=("HF_TOKEN",))) == ["false false true false"]
    assert spoken(build(repo)) == ["false false false false"]


@cargo_test
def test_a_folder_of_the_repo_as_cwd(repo: Path) -> None:
    program = build(repo, cwd="port")

    assert spoken(program)[0] == "port"


@cargo_test
@posix
def test_a_runner_of_the_repos_own_is_kept(repo: Path) -> None:
    runner = repo / "run.sh"
    write(repo, {"run.sh": '#!/bin/sh\necho "by the runner"\nexec "$@"\n'})
    runner.chmod(0o755)
    config = f"[target.'cfg(all())']\nrunner = [{json.dumps(str(runner))}]\n"
    write(repo, {".cargo/config.toml": config})

    program = build(repo)

    assert program.argv[1:3] == ("run", "-q")
    assert spoken(program, "x")[0] == "by the runner"
    assert spoken(program, "x")[-1] == '["x"]'


@cargo_test
@posix
def test_a_program_of_a_repo_with_a_runner_is_not_run_on_trial(repo: Path) -> None:
    """Without a recorder in its place it would run for real, with no arguments."""
    log = repo / "log"
    write(repo, {"run.sh": f'#!/bin/sh\necho "$@" >> {log.as_posix()!r}\n'})
    (repo / "run.sh").chmod(0o755)
    lines = process.run(
        ("cargo", "-Vv"), cwd=repo, env=process.build_environment(), timeout=60
    ).stdout
    host = lines.partition("host: ")[2].split()[0]
    runner = json.dumps(str(repo / "run.sh"))
    write(repo, {".cargo/config.toml": f"[target.{host}]\nrunner = [{runner}]\n"})

    program = build(repo)

    assert not log.exists()
    spoken(program, "x")
    assert log.read_text().endswith("show x\n")


@cargo_test
@posix
def test_a_runner_from_an_unseen_place_is_kept(repo: Path) -> None:
    """``--config`` of the caller, say; cargo then reports two runners and starts none."""
    config = "target.'cfg(all())'.runner=['env']"

    program = build(repo, cargo_args=("--config", config))

    assert program.argv[1:3] == ("run", "-q")
    assert spoken(program, "x")[-1] == '["x"]'


@cargo_test
def test_the_commit_of_the_repo(repo: Path) -> None:
    write(repo, {".gitignore": "target\nCargo.lock\n"})
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")

    clean = build(repo).port["commit"]
    write(repo, {"port/src/lib.rs": "// changed\n"})
    dirty = cargo.read_commit(repo)

    assert clean == git(repo, "rev-parse", "HEAD")
    assert dirty == f"{clean}-dirty"


def git(repo: Path, *words: str) -> str:
    result = process.run(("git", *words), cwd=repo, env=process.build_environment(), timeout=30)
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


@cargo_test
def test_progress_is_said_without_colour(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARGO_TERM_COLOR", "always")
    said: list[str] = []

    build(repo, on_progress=said.append)

    assert any(line.strip().startswith("Compiling port v0.4.2") for line in said)


def test_without_cargo(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert failure(repo) == (
        Problem("no-cargo", "cargo was not found on PATH; install Rust (https://rustup.rs).", LOCK),
    )


@cargo_test
def test_a_toolchain_that_is_not_installed(repo: Path) -> None:
    (problem,) = failure(repo, toolchain="no-such-chain")

    assert problem.code == "no-cargo"
    assert "no-such-chain" in problem.message
    assert not any("backtrace" in line.lower() for line in problem.details)


@cargo_test
def test_compile_errors_name_file_line_and_column(repo: Path) -> None:
    bad = 'fn main() {\n    let x: u32 = "a";\n    missing();\n}\n'
    write(repo, {"port/examples/bad.rs": bad})

    problems = failure(repo, "bad")

    file = repo / "port/examples/bad.rs"
    assert [(p.code, p.message, p.where) for p in problems] == [
        ("compile-error", "mismatched types (E0308)", Location(file, 2, 18)),
        (
            "compile-error",
            "cannot find function `missing` in this scope (E0425)",
            Location(file, 3, 5),
        ),
    ]
    assert problems[0].details[:2] == (
        "error[E0308]: mismatched types",
        " --> port/examples/bad.rs:2:18",
    )


@cargo_test
def test_a_place_is_found_from_a_member_as_cwd(repo: Path) -> None:
    """rustc's paths begin at the workspace's root, wherever cargo was started."""
    write(repo, {"port/examples/bad.rs": "fn main() { missing() }\n"})

    (problem,) = failure(repo, "bad", cwd="port")

    assert problem.where == Location(repo / "port/examples/bad.rs", 1, 13)


@cargo_test
def test_a_place_is_found_in_a_workspace_below_the_repo(repo: Path) -> None:
    write(repo, {"port/examples/bad.rs": "fn main() { missing() }\n"})
    args = ("--manifest-path", f"{repo.name}/Cargo.toml")

    (problem,) = failure(repo.parent, "bad", cargo_args=args)

    assert problem.where == Location(repo / "port/examples/bad.rs", 1, 13)


def test_an_error_in_a_foreign_macro_points_at_its_call(tmp_path: Path) -> None:
    write(tmp_path, {"src/lib.rs": ""})
    call = {"file_name": "src/lib.rs", "line_start": 7, "column_start": 3, "expansion": None}
    macro = {"file_name": "/rustc/macros.rs", "line_start": 1, "column_start": 1}
    span = {**macro, "is_primary": True, "expansion": {"span": call}}
    other = {**call, "line_start": 1, "is_primary": False}
    error = {"level": "error", "message": "no", "rendered": "error: no\n", "spans": [other, span]}
    heard = CargoOutput("show")
    heard.read_line(json.dumps({"reason": "compiler-message", "message": error}))

    (problem,) = explain_failure(heard, "", repo=tmp_path, start=tmp_path, where=LOCK)

    assert problem == Problem(
        "compile-error", "no", Location(tmp_path / "src/lib.rs", 7, 3), ("error: no",)
    )


@cargo_test
def test_an_error_inside_a_macro_points_at_its_call(repo: Path) -> None:
    write(repo, {"port/examples/bad.rs": 'fn main() {\n    println!("{}", 1, 2);\n}\n'})

    (problem,) = failure(repo, "bad")

    assert problem.where is not None
    assert (problem.where.path, problem.where.line) == (repo / "port/examples/bad.rs", 2)


@cargo_test
def test_many_compile_errors_are_counted(repo: Path) -> None:
    calls = "\n".join(f"missing_{i}();" for i in range(8))
    write(repo, {"port/examples/bad.rs": f"fn main() {{\n{calls}\n}}\n"})

    problems = failure(repo, "bad")

    assert [p.code for p in problems] == ["compile-error"] * 6
    assert problems[-1].message == "3 more compile errors are not shown; cargo shows them all."
    assert problems[-1].where == LOCK


@cargo_test
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('panic!("Unable to find libclang")', "Unable to find libclang"),
        ('eprintln!("Error: no pkg-config"); std::process::exit(1)', "Error: no pkg-config"),
        ('println!("only on stdout"); std::process::exit(2)', "only on stdout"),
    ],
    ids=["panic", "error", "stdout"],
)
def test_a_build_script_that_fails_reports_its_reason(
    repo: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    script = f'fn main() {{ eprintln!("looking around"); if true {{ {body} }} }}'
    if "stdout" in body:
        script = script.replace('eprintln!("looking around");', "")
    write(repo, {"port/build.rs": script})

    (problem,) = failure(repo)

    assert problem.code == "build-script"
    assert problem.message == f"The build script of port v0.4.2 failed: {reason}"
    assert problem.where == LOCK
    assert any(reason in line for line in problem.details)
    assert not any("rust_begin_unwind" in line for line in problem.details)


@cargo_test
def test_a_missing_example_lists_those_that_exist(repo: Path) -> None:
    (problem,) = failure(repo, "shoe")

    assert problem == Problem(
        "no-example",
        "The package has no such example: no example target named `shoe` in `port` package",
        LOCK,
        (
            "error: no example target named `shoe` in `port` package",
            "help: a target with a similar name exists: `show`",
        ),
    )


@cargo_test
def test_a_missing_package(repo: Path) -> None:
    (problem,) = failure(repo, package="prot")

    assert problem.code == "no-package"
    assert problem.message == (
        "The package does not exist: package ID specification `prot` did not match any packages"
    )
    assert "help: a package with a similar name exists: `port`" in problem.details


@cargo_test
def test_a_repo_without_cargo_toml(tmp_path: Path) -> None:
    (problem,) = failure(tmp_path)

    assert problem.code == "no-package"
    assert problem.message.startswith("The package does not exist: could not find `Cargo.toml` in")


@cargo_test
def test_a_dependency_that_is_not_at_hand_offline(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "empty home"))
    write(repo, {"port/Cargo.toml": package("port", '[dependencies]\nryu = "1"\n')})

    (problem,) = failure(repo)

    assert problem.code == "no-registry"
    assert problem.message == (
        "A dependency cannot be downloaded: no network, or not fetched before --offline: "
        "no matching package named `ryu` found"
    )


@cargo_test
def test_anything_else_is_a_failed_build_with_cargos_reason(repo: Path) -> None:
    (problem,) = failure(repo, features=("silent",))

    assert problem.code == "build-failed"
    assert problem.message.startswith("cargo could not build: the package 'port' does not contain")


@cargo_test
def test_a_build_that_takes_too_long(repo: Path) -> None:
    sleep = "fn main() { std::thread::sleep(std::time::Duration::from_secs(100)); }"
    write(repo, {"port/build.rs": sleep})
    started = time.monotonic()

    (problem,) = failure(repo, build_timeout=3.0)

    assert time.monotonic() - started < 30
    assert problem.code == "build-timeout"
    assert problem.message == (
        "The build of example 'show' was stopped: "
        "it reached its limit of 3 seconds (build-timeout)."
    )


@cargo_test
def test_a_build_after_the_deadline(repo: Path) -> None:
    (problem,) = failure(repo, deadline=time.monotonic() - 1)

    assert problem.code == "build-timeout"
    assert problem.message.endswith("was stopped: the run's deadline passed.")


# A published crate, by a fake cargo that installs a file: the registry is not ours to need.

FAKE = """\
#!/bin/sh
echo "$@" >> "{log}"
if [ "$1" = "-Vv" ]; then echo "cargo 9 {version}"; exit 0; fi
while [ $# -gt 0 ]; do
  if [ "$1" = --root ]; then root=$2; fi
  if [ "$1" = --example ]; then example=$2; fi
  shift
done
mkdir -p "$root/bin"
{before}
printf '#!/bin/sh\\necho "$CARGO_TARGET_DIR" built\\n' > "$root/bin/$example"
chmod +x "$root/bin/$example"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a cargo first on PATH; returns what changes it and what tells its calls."""
    log = tmp_path / "log"

    def place(before: str = "", version: str = "1") -> Any:
        write(tmp_path, {"fake/cargo": FAKE.format(log=log, before=before, version=version)})
        (tmp_path / "fake/cargo").chmod(0o755)
        return lambda: [line for line in log.read_text().splitlines() if line != "-Vv"]

    monkeypatch.setenv("PATH", f"{tmp_path / 'fake'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("RUSTFLAGS", raising=False)
    return place


def crate(tmp_path: Path, **fields: Any) -> cargo.Program:
    (tmp_path / "fixtures.lock.yaml").touch()
    where = {"crate": Location(tmp_path / "fixtures.lock.yaml", 3, 9), "example": LOCK}
    given = {"crate": "port@1.2.3", "package": None, "where": where}
    return build(tmp_path / "no repo needed", "dump", **{**given, **fields})


@pytest.mark.process
@posix
def test_a_crate_is_built_once_and_found_again(tmp_path: Path, fake: Any) -> None:
    calls = fake()

    first = crate(tmp_path)
    second = crate(tmp_path)

    assert first.argv == second.argv
    root = Path(first.argv[0]).parent.parent
    assert calls() == [
        (
            f"install port --version 1.2.3 --locked --root {root}.part --message-format=json "
            "--offline --example dump --profile dev"
        )
    ]
    assert root.parent == tmp_path / "crates"
    assert not Path(f"{root}.part").exists()
    assert first.cwd == tmp_path
    assert first.version == "1.2.3"
    assert first.port == {"crate": "port@1.2.3"}


@pytest.mark.process
@posix
def test_a_crate_that_was_built_online_serves_offline(tmp_path: Path, fake: Any) -> None:
    fake()

    assert crate(tmp_path, offline=False).argv == crate(tmp_path, offline=True).argv


@pytest.mark.process
@posix
@pytest.mark.parametrize(
    "other",
    [
        {"crate": "port@1.2.4"},
        {"features": ("loud",)},
        {"profile": "release"},
        {"env": {"CFLAGS": "-O3"}},
        {"cargo_args": ("--all-features",)},
        {"RUSTFLAGS": "-Ctarget-cpu=native"},
        {"version": "2"},
        {"config": "[build]\nrustflags = []\n"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_whatever_decides_the_program_makes_another_build(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    fake()
    first = crate(tmp_path)
    if "RUSTFLAGS" in other:
        monkeypatch.setenv("RUSTFLAGS", other.pop("RUSTFLAGS"))
    if "version" in other:
        fake(version=other.pop("version"))
    if "config" in other:
        write(tmp_path, {".cargo/config.toml": other.pop("config")})

    assert crate(tmp_path, **other).argv != first.argv


@pytest.mark.process
@posix
def test_a_crate_that_fails_leaves_nothing_to_be_found(tmp_path: Path, fake: Any) -> None:
    calls = fake(before='echo "error: could not compile" >&2; echo x > "$root/bin/dump"; exit 101')
    for _ in range(2):
        with pytest.raises(DumpError) as caught:
            crate(tmp_path)

    (problem,) = caught.value.problems
    assert problem.code == "build-failed"
    assert problem.where == Location(tmp_path / "fixtures.lock.yaml", 3, 9)
    assert len(calls()) == 2
    assert not [path for path in (tmp_path / "crates").iterdir() if path.is_dir()]


@pytest.mark.process
@posix
def test_two_processes_do_not_build_the_same_crate(tmp_path: Path, fake: Any) -> None:
    calls = fake(before="sleep 1")
    code = f"""
        from pathlib import Path
        from parity.lockfile import Dump
        from parity.port import cargo

        dump = Dump(crate="port@1.2.3", example="dump", profile="dev")
        cargo.build_program(
            dump, "dump", repo=Path({str(tmp_path)!r}), toolchain="", cargo_args=(), offline=True,
            crates=Path({str(tmp_path / "crates")!r}), deadline=None, on_progress=print,
        )
    """
    words = (sys.executable, "-c", textwrap.dedent(code))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    with ThreadPoolExecutor() as pool:
        other = pool.submit(process.run, words, cwd=tmp_path, env=env, timeout=60)
        crate(tmp_path)

    assert other.result().exit_code == 0, other.result().stderr
    assert len(calls()) == 1


# Words that are hard to provoke here, as cargo writes them.


def reported(stderr: str, *messages: dict[str, Any]) -> list[Problem]:
    heard = CargoOutput("show")
    for message in messages:
        heard.read_line(json.dumps(message))
    return explain_failure(heard, stderr, repo=Path(), start=Path(), where=LOCK)


@pytest.mark.parametrize(
    "words",
    [
        (
            "error: failed to get `ryu` as a dependency of package `c v0.1.0`\n\nCaused by:\n"
            "  download of config.json failed\n"
        ),
        (
            "error: failed to download `x v1.0.0`\n\nCaused by:\n"
            "  attempting to make an HTTP request, but --offline was specified\n"
        ),
        (
            "warning: spurious network error (3 tries remaining): [6] Could not resolve hostname\n"
            "error: failed to fetch `https://github.com/a/b`\n"
        ),
    ],
)
def test_a_registry_out_of_reach(words: str) -> None:
    (problem,) = reported(words)

    assert problem.code == "no-registry"
    assert words.partition("error: ")[2].splitlines()[0] in problem.message


def test_a_version_that_was_never_published() -> None:
    words = "error: could not find `itoa` in registry `crates-io` with version `=0.6.2`\n"

    (problem,) = reported(words)

    assert problem.code == "no-package"


def test_two_build_scripts_and_a_diagnostic_are_all_reported() -> None:
    script = (
        "error: failed to run custom build command for `{0} v1.0.0 (/a b/{0})`\n\nCaused by:\n"
        "  process didn't exit successfully: `x` (exit status: 101)\n  --- stderr\n\n"
        "  thread 'main' (77) panicked at build.rs:1:2:\n  no {0}\n  stack backtrace:\n"
        "     0: __rustc::rust_begin_unwind\n               at /rustc/x.rs:1:2\n"
        "  note: Some details are omitted, run with `RUST_BACKTRACE=full`\n"
    )
    diagnostic = {"level": "error", "message": "linking with `cc` failed", "spans": []}
    message = {"reason": "compiler-message", "message": {**diagnostic, "rendered": None}}

    found = reported(script.format("one") + script.format("two"), message)

    assert [str(problem).splitlines()[0] for problem in found] == [
        "fixtures.lock.yaml:7:5: [compile-error] linking with `cc` failed",
        "fixtures.lock.yaml:7:5: [build-script] The build script of one v1.0.0 failed: no one",
        "fixtures.lock.yaml:7:5: [build-script] The build script of two v1.0.0 failed: no two",
    ]


@pytest.mark.parametrize(
    "line",
    ["", "text", "{", "[1]", '{"reason": "compiler-message"}', '{"reason": "compiler-artifact"}',
     '{"reason": "compiler-message", "message": 3}', "[" * 100_000, '{"a":' * 100_000],
)  # fmt: skip
def test_lines_that_are_no_message_of_cargo(line: str) -> None:
    heard = CargoOutput("show")

    heard.read_line(line)

    assert heard == CargoOutput("show")


@pytest.mark.parametrize(
    ("package_id", "version"),
    [
        ("path+file:///a%20b/port#0.4.2", "0.4.2"),
        ("sparse+https://example.org/index/#port@1.0.0-rc.1", "1.0.0-rc.1"),
        ("path+file:///a#port", None),
        ("", None),
    ],
)
def test_the_version_in_a_package_id(package_id: str, version: str | None) -> None:
    assert CargoOutput("show", package_id=package_id).version == version


def test_one_build_serves_the_cases_that_share_it() -> None:
    dump = Dump(package="port", example="{case}", args=("{case}",), timeout=3)

    assert cargo.make_build_key(dump, "a") == cargo.make_build_key(Dump(package="port"), "a")
    assert cargo.make_build_key(dump, "a") != cargo.make_build_key(dump, "b")
    assert cargo.make_build_key(dump, "a") != cargo.make_build_key(
        Dump(package="port", env={"A": "1"}), "a"
    )
