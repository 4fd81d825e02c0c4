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
    assert _locked("requirements.lock") == _needed(
        *project["dependencies"],
        # Who is called at night must not install anything first.
        *project["optional-dependencies"]["console"],
        *PROJECT["build-system"]["requires"],
    )


def test_development_packages_are_locked_apart() -> None:
    development = _locked("requirements-dev.lock")
    assert _needed(*PROJECT["dependency-groups"]["dev"]) - development <= _locked(
        "requirements.lock"
    )
    assert not development & _locked("requirements.lock")
