"""An installation without the virtual rack serves sites, and names what a rack would need."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from appliance import __version__
from appliance.actions.sites import virtual_rack
from appliance.actions.sites.opening import NoSite, Target, locate, runs_of
from appliance.cli.verbs import Commands
from appliance.errors import LabMissing

LAB = "appliance.lab"


class Removed:
    """Finds no module of the virtual rack, as if its wheel had never been installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called by Python for each module that is not imported yet."""
        if name == LAB or name.startswith(f"{LAB}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == LAB or name.startswith(f"{LAB}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "appliance.cli.lab", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Removed(), *sys.meta_path])


def test_this_checkout_has_the_rack() -> None:
    assert virtual_rack.is_installed()


@pytest.mark.usefixtures("removed")
def test_the_verb_names_the_file_to_install() -> None:
    with pytest.raises(LabMissing) as told:
        Commands()["lab"]
    assert f"appliance_lab-{__version__}-py3-none-any.whl" in told.value.hint
    assert told.value.exit_code == 2


@pytest.mark.usefixtures("removed")
def test_a_rack_that_is_asked_for_is_refused() -> None:
    with pytest.raises(LabMissing):
        locate(Target(profile="hpc"), raise_rack=True)


@pytest.mark.usefixtures("removed")
def test_no_rack_is_offered() -> None:
    with pytest.raises(NoSite) as told:
        locate(Target(), raise_rack=True)
    assert "rack" not in f"{told.value.message} {told.value.hint}"


@pytest.mark.usefixtures("removed")
def test_sites_work(tmp_path: Path) -> None:
    assert virtual_rack.site() is None
    assert runs_of(Target(inventory=tmp_path)) == tmp_path / "runs"
