"""A control machine installs what the program needs, and no test tools."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parents[2]
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))


def _locked(file: str) -> set[str]:
    text = (HERE / file).read_text(encoding="utf-8")
    return {canonicalize_name(name) for name in re.findall(r"(?m)^([A-Za-z0-9._-]+)==", text)}


def _needed(*roots: str) -> set[str]:
    """Names of the roots and of what they require on this interpreter and platform."""
    names: set[str] = set()
    todo = [Requirement(root) for root in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        wanted = todo.pop()
        mark = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if mark in seen:
            continue
        seen.add(mark)
        names.add(mark[0])
        for line in requires(wanted.name) or ():
            inner = Requirement(line)
            extras = wanted.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
                todo.append(inner)
    return names


def test_the_lock_of_a_control_machine_holds_what_the_program_needs_and_no_more() -> None:
    project = PROJECT["project"]
    # The console is locked, too: who is called at night must not install anything first.
    assert _locked("requirements.lock") == _needed(
        *project["dependencies"], *project["optional-dependencies"]["console"]
    )


def test_packages_of_the_build_are_locked_apart() -> None:
    runtime = _locked("requirements.lock")
    assert (
        _locked("requirements-build.lock")
        == _needed(*PROJECT["build-system"]["requires"]) - runtime
    )


def test_development_packages_are_locked_apart() -> None:
    development = _locked("requirements-dev.lock")
    installed = _locked("requirements.lock") | _locked("requirements-build.lock")
    assert _needed(*PROJECT["dependency-groups"]["dev"]) - development <= installed
    assert not development & installed


def test_each_locked_version_is_one_that_the_project_allows() -> None:
    """For every Python: a package may be there twice, each for its own."""
    project = PROJECT["project"]
    allowed = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    text = (HERE / "requirements.lock").read_text(encoding="utf-8")
    pins = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^\s;]+)", text)
    for name, version in pins:
        assert name not in allowed or allowed[name].contains(version), name
    assert {name for name, _ in pins} >= set(allowed)
