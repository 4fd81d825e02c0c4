"""The probe as it is sent: one command, one stream, any supported Python, and nothing left behind."""

import ast
import json
import os
import re
import shutil
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import appliance.probe
from appliance.adapters.process import run
from appliance.models.facts import HostFacts
from appliance.probe import bundle
from appliance.probe.collect import AREAS

FOLDER = Path(appliance.probe.__file__).parent
SOURCES = sorted(path for path in FOLDER.rglob("*.py") if path.name != "bundle.py")
PYTHONS = sorted(Path.home().glob(".pyenv/versions/*/bin/python3"))
SUPPORTED = [path for path in PYTHONS if not re.search(r"/(2\.|3\.[0-7]\.)", str(path))]
TOO_OLD = [path for path in PYTHONS if re.search(r"/3\.[67]\.", str(path))]
# "What's New In Python" 3.9 to 3.14, the sections on what was removed.
REMOVED = re.compile(
    r"(aifc|asynchat|asyncore|audioop|binhex|cgi|cgitb|chunk|crypt|distutils|formatter|imghdr|imp|lib2to3|mailcap|"
    r"msilib|nis|nntplib|ossaudiodev|parser|pipes|smtpd|sndhdr|spwd|sunau|symbol|telnetlib|uu|xdrlib)(\.|$)"
)
EVERYTHING = [area for area in AREAS if area not in {"topology", "offer"}]


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(FOLDER)) for p in SOURCES])
def test_sources_are_python_3_8_of_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            named = [node.module or ""]
        for name in named:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or name.startswith("appliance.probe"), name


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(FOLDER)) for p in SOURCES])
def test_sources_use_nothing_that_pythons_up_to_3_14_dropped(path: Path) -> None:
    """Where no 3.14 is at hand to run it: no module removed since 3.8, no jump out of "finally" (PEP 765)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [alias.name for alias in node.names]
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in named if REMOVED.match(name)]
        if isinstance(node, ast.Try):
            inside = [inner for part in node.finalbody for inner in ast.walk(part)]
            assert not [n for n in inside if isinstance(n, ast.Return | ast.Break | ast.Continue)]


def test_the_bootstrap_can_be_read_by_python_3_6() -> None:
    ast.parse(bundle.bootstrap(), feature_version=(3, 6))


def test_the_program_is_the_same_bytes_every_time() -> None:
    first = bundle.program()
    bundle.program.cache_clear()
    assert bundle.program() == first
    names = zipfile.ZipFile(BytesIO(first)).namelist()
    assert "appliance/probe/__main__.py" in names
    assert not [name for name in names if "bundle" in name or not name.endswith(".py")]


def test_the_program_is_small_enough_to_send_each_time() -> None:
    assert len(bundle.sent(bundle.program())) < 136 * 1024
    assert len(bundle.sent(bundle.compiled())) < 496 * 1024


def test_a_host_with_the_same_python_compiles_nothing() -> None:
    """Its source cannot be compiled: where the Python is the same nobody tries, another does."""
    whole = zipfile.ZipFile(BytesIO(bundle.compiled()))
    archive = bundle.packed(
        (name, b"?" if name.endswith("probe/ask.py") else whole.read(name))
        for name in whole.namelist()
        if name != "appliance/__init__.py"
    )
    same = run(bundle.command(sys.executable), input=bundle.payload({"areas": ["os"]}, archive))
    assert HostFacts.model_validate_json(same.stdout).os.id
    for python in SUPPORTED:
        if not python.parents[1].name.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}."):
            command = bundle.command(str(python))
            other = run(command, input=bundle.payload({}, archive), check=False)
            assert "SyntaxError" in other.stderr


def probe(python: str | Path, request: dict[str, object], *before: str) -> HostFacts:
    told = bundle.payload(request, bundle.compiled())
    done = run([*before, *bundle.command(str(python))], input=told)
    assert done.stderr == ""
    return HostFacts.model_validate_json(done.stdout)


@pytest.mark.parametrize("python", [Path(sys.executable), *SUPPORTED], ids=str)
def test_it_runs_on_every_python_found(python: Path) -> None:
    facts = probe(python, {"packages": ["bash"], "units": ["ssh.service"], "resources": []})
    assert facts.cpu.threads == os.cpu_count()
    assert 0 < facts.cpu_seconds < 1
    surprises = [e for e in facts.errors.values() if re.match(r"\w+(Error|Exception): ", e)]
    assert surprises == []


@pytest.mark.skipif(not TOO_OLD, reason="no Python older than 3.8 here")
def test_an_old_python_is_refused_by_its_version() -> None:
    for python in TOO_OLD:
        done = run(bundle.command(str(python)), input=bundle.payload({}), check=False)
        version = python.parents[1].name
        assert done.returncode == 2
        assert json.loads(done.stdout)["error"].endswith(f"this host has {version}")
        assert done.stderr.strip().endswith(version)


def test_a_damaged_program_is_one_line_of_error() -> None:
    broken = (10).to_bytes(8, "big") + b"notazip..." + b"{}"
    done = run(bundle.command(), input=broken, check=False)
    assert done.returncode == 2
    assert "the probe could not be loaded" in json.loads(done.stdout)["error"]


def test_a_refused_request_ends_with_2_and_says_why() -> None:
    done = run(bundle.command(), input=bundle.payload({"areas": ["sofa"]}), check=False)
    assert done.returncode == 2
    assert "unknown area sofa" in done.stderr
    assert "unknown area sofa" in json.loads(done.stdout)["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user here")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
def test_an_unprivileged_user_gets_facts_and_reasons() -> None:
    become = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    request: dict[str, object] = {"resources": [{"kind": "file", "name": "/etc/shadow"}]}
    facts = probe("/usr/bin/python3", request, *become)
    assert facts.user == "nobody"
    assert facts.resources[0]["error"] == "needs root"
    assert facts.cpu.threads == os.cpu_count()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to watch system calls")
def test_it_writes_nothing_on_the_host(tmp_path: Path) -> None:
    """Nothing is created, opened for writing, renamed or removed but in memory, /dev/null and pipes."""
    log = tmp_path / "calls"
    watched = "openat,open,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat2,symlinkat,linkat,fchmodat,truncate,mount"
    request: dict[str, object] = {
        "areas": EVERYTHING,
        "packages": ["bash"],
        "units": ["ssh.service"],
        "resources": [{"kind": "file", "name": "/etc/passwd"}, {"kind": "package", "name": "bash"}],
    }
    before = ("strace", "-f", "-qq", "-o", str(log), "-e", f"trace={watched}")
    probe("/usr/bin/python3", request, *before)
    calls = [line.split(" ", 1)[1].strip() for line in log.read_text().splitlines()]
    assert any(call.startswith("open") for call in calls)
    changing = [
        call
        for call in calls
        if not call.startswith(("open", "+++", "---", "<..."))
        or re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND", call)
    ]
    # bash asks for the terminal, which a host that is looked at does not have.
    usual = re.compile('"/dev/(null|tty)"')
    assert [call for call in changing if not usual.search(call)] == []
