"""appliance discover, power, bios and trust --bmc on a site whose controllers run on loopback."""

import io
import json
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from appliance.actions.sites import opening
from appliance.cli import trust as trust_cli
from appliance.config.document import read
from appliance.config.load import LoadedSite, load_site
from appliance.config.new_secrets import write_secrets
from appliance.engine.run import machines_in_use
from appliance.engine.run.schedulers import SchedulerHost
from appliance.errors import ApplianceError
from appliance.models.profile import ServerModel
from appliance.models.site import Owner, Site
from tests.redfish_server import (
    PASSWORD,
    USER,
    Bmc,
    Handler,
    certificate,
    fingerprint,
    serve,
    tree,
)
from tests.support.command_line import run

SITE = """\
version: 1
name: acme
profile: hpc
networks:
  management: {cidr: 10.0.0.0/24}
hosts:
  - {name: head, roles: [control, storage], address: 10.0.0.10}
  - name: gpu-1
    roles: [gpu]
    address: 10.0.0.11
    bmc: {address: 10.0.16.11, user: admin, password: {file: secrets/bmc}}
secrets:
  munge_key: {file: secrets/munge_key}
  slurmdbd_password: {file: secrets/slurmdbd_password}
"""


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("pem"))


@pytest.fixture
def bmc(pem: Path) -> Iterator[Bmc]:
    with serve(Bmc(tree("nvidia-dgx-h100"), pem)) as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site folder; no site may name loopback, so its model alone is changed."""
    (tmp_path / "site.yml").write_text(SITE)
    write_secrets(tmp_path / "secrets")
    (tmp_path / "secrets/bmc").touch(mode=0o600)
    (tmp_path / "secrets/bmc").write_text(PASSWORD)
    (tmp_path / "known_hosts").touch()
    loaded = load_site(tmp_path)
    moved = replace(loaded, site=_moved(loaded.site, bmc.port))

    def located(*_: object, **__: object) -> LoadedSite:
        return moved

    monkeypatch.setattr(opening, "locate", located)
    monkeypatch.setattr(trust_cli, "load_site", located)
    return tmp_path


def _moved(site: Site, port: int) -> Site:
    def at(host: object) -> object:
        bmc = getattr(host, "bmc", None)
        if bmc is None:
            return host
        here = bmc.model_copy(update={"address": IPv4Address("127.0.0.1"), "port": port})
        return host.model_copy(update={"bmc": here})  # type: ignore[attr-defined]

    return site.model_copy(update={"hosts": tuple(map(at, site.hosts))})


def pin(folder: Path, bmc: Bmc, value: str = "") -> None:
    name = f"127.0.0.1:{bmc.port}"
    (folder / "known_bmcs").write_text(f"{name} SHA256:{value or fingerprint(bmc.pem)}\n")


def test_without_a_pin_nothing_is_sent(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "discover", "-s", str(site)) == 1
    said = capsys.readouterr().out
    assert "is not pinned" in said
    assert f"appliance trust --site {site} --bmc" in said
    assert bmc.asked == []


def test_a_certificate_is_pinned_by_the_users_word(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "trust", "--bmc", "-s", str(site), "--yes") == 0
    assert f"SHA256:{fingerprint(bmc.pem)}  pinned now" in capsys.readouterr().out
    assert bmc.asked == []
    assert run(monkeypatch, "discover", "-s", str(site)) in {0, 1, 3}
    assert "NVIDIA DGXH100 · serial 1663623000001 · power On" in capsys.readouterr().out


def test_a_changed_certificate_is_never_pinned_unasked(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc, "0" * 64)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    run(monkeypatch, "trust", "--bmc", "-s", str(site), "--yes")
    assert "CHANGED from the pinned key" in capsys.readouterr().out
    assert "0" * 64 in (site / "known_bmcs").read_text()


def test_the_report_holds_the_inventory_and_no_password(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    run(monkeypatch, "discover", "-s", str(site), "--json", "--report")
    found = json.loads(capsys.readouterr().out)
    (machine,) = found["machines"].values()
    assert machine["machine"]["model"] == "DGXH100"
    report = Path(found["report"])
    kept = json.loads(report.with_suffix(".json").read_text())
    assert any(r["id"] == "bmc.gpus" for r in kept["results"])
    (evidence,) = kept["evidence"]
    assert (report.parent / evidence["path"]).stat().st_size == evidence["size"]
    texts = "".join(p.read_text(errors="replace") for p in report.parent.rglob("*") if p.is_file())
    assert PASSWORD not in texts


def test_a_damaged_list_of_pins_is_refused(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "known_bmcs").write_text("# pins\n127.0.0.1 SHA256:xyz\n")
    assert run(monkeypatch, "discover", "-s", str(site)) == 2
    said = capsys.readouterr().err
    assert "known_bmcs: 1 problem" in said
    assert ":2  known_bmcs  contains no fingerprint" in said
    assert bmc.asked == []


@pytest.mark.parametrize(("name", "words"), [("nowhere", "no such host"), ("head", "no BMC")])
def test_a_host_without_a_controller_is_refused(
    name: str,
    words: str,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "discover", "-s", str(site), "--hosts", name) == 2
    assert words in capsys.readouterr().err


RESET = "/redfish/v1/Systems/DGX/Actions/ComputerSystem.Reset"


class Slurm:
    """A scheduler by whose word the host carries this work."""

    def __init__(self, *work: str) -> None:
        self._work = work

    def look(self, host: str) -> SchedulerHost:
        return SchedulerHost(Owner.SLURM, True, "mixed", self._work)


def obedient(bmc: Bmc) -> None:
    documents = tree("nvidia-dgx-h100")
    bmc.tree = documents

    def obey(_: str, body: object) -> None:
        assert isinstance(body, dict)
        state = "On" if body["ResetType"] == "On" else "Off"
        documents["/redfish/v1/Systems/DGX"]["PowerState"] = state

    bmc.on_post = obey


def test_a_host_that_carries_work_is_not_switched_off(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda _: (Slurm("job 7 of alice"),))
    assert run(monkeypatch, "power", "off", "gpu-1", "-i", str(site), "--yes") == 2
    assert "gpu-1: it carries work: job 7 of alice" in capsys.readouterr().err
    assert bmc.bodies == []


def test_what_nobody_knows_is_not_free(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(_: object) -> None:
        raise ApplianceError("head does not answer")

    pin(site, bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", away)
    assert run(monkeypatch, "power", "cycle", "gpu-1", "-i", str(site), "--yes") == 2
    assert "cannot determine whether it runs jobs: head does not answer" in capsys.readouterr().err
    assert bmc.bodies == []


def test_who_insists_is_obeyed(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    obedient(bmc)
    words = ("power", "off", "gpu-1", "--hard", "--force", "--yes", "-s", str(site))
    assert run(monkeypatch, *words) == 0
    assert bmc.bodies == [{"ResetType": "ForceOff"}]
    assert run(monkeypatch, "power", "status", "-i", str(site)) == 0
    assert capsys.readouterr().out.split() == ["gpu-1", "Off"] * 2


def test_a_free_host_is_shut_down(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    obedient(bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda _: (Slurm(),))
    assert run(monkeypatch, "power", "off", "gpu-1", "--yes", "-s", str(site)) == 0
    assert bmc.bodies == [{"ResetType": "GracefulShutdown"}]


def test_without_an_answer_nothing_is_switched(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run(monkeypatch, "power", "on", "gpu-1", "-i", str(site)) == 2
    assert "add --yes" in capsys.readouterr().err
    assert bmc.asked == []


def test_power_of_an_untrusted_controller_is_not_touched(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "power", "on", "gpu-1", "--yes", "-s", str(site)) == 1
    assert "is not pinned" in capsys.readouterr().out
    assert bmc.asked == []


def test_a_controller_that_repeats_its_password_is_told_without_it(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the verb's own lines, as a document, and in the journal."""

    def repeat(handler: Handler) -> None:
        handler.say(400, {"error": {"code": "x", "message": f"{USER} with {PASSWORD} may not"}})

    pin(site, bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda _: (Slurm(),))
    bmc.before[RESET] = bmc.before["/redfish/v1/Systems/DGX/Memory"] = repeat
    assert run(monkeypatch, "power", "off", "gpu-1", "--yes", "-s", str(site)) == 1
    run(monkeypatch, "discover", "-s", str(site), "--json")
    settings = with_settings(bmc)
    settings["SetupPassword"] = PASSWORD
    bmc.tree[SYSTEM]["SerialNumber"] = PASSWORD
    bmc.before.clear()
    run(monkeypatch, "discover", "-s", str(site))
    assert run(monkeypatch, "bios", "show", "gpu-1", "-i", str(site)) == 0
    said = capsys.readouterr()
    assert "answers 400: admin with *** may not" in said.out
    assert PASSWORD not in said.out + said.err
    with sqlite3.connect(site / "runs/journal.sqlite") as journal:
        kept = [text for (text,) in journal.execute("SELECT data FROM entry")]
    assert any("admin with *** may not" in text for text in kept)
    assert not any(PASSWORD in text for text in kept)


SYSTEM, BIOS = "/redfish/v1/Systems/DGX", "/redfish/v1/Systems/DGX/Bios"


def with_settings(bmc: Bmc) -> dict[str, object]:
    """It keeps settings, and takes a change at once; returns its settings."""
    obedient(bmc)
    settings: dict[str, object] = {"NumaNodesPerSocket": "NPS1", "SriovSupport": True}
    documents = {**bmc.tree, f"{BIOS}/Settings": {"Attributes": {}}}
    documents[SYSTEM]["Bios"] = {"@odata.id": BIOS}
    at = {"SettingsObject": {"@odata.id": f"{BIOS}/Settings"}}
    documents[BIOS] = {"Attributes": settings, "@Redfish.Settings": at}
    bmc.tree = documents
    obey = bmc.on_post
    assert obey

    def take(path: str, body: object) -> None:
        if path == f"{BIOS}/Settings":
            assert isinstance(body, dict)
            settings.update(body["Attributes"])
        else:
            obey(path, body)

    bmc.on_post = take
    return settings


@pytest.fixture
def wanting(site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site with a profile that names settings and firmware of this model."""
    loaded = opening.locate()  # type: ignore[call-arg]
    bios = {"NumaNodesPerSocket": "NPS4", "SriovSupport": True}
    server = ServerModel(model="DGX?100", bios=bios, firmware={"BIOS": "1.0.0"})
    profile = loaded.profile.model_copy(update={"servers": (server,)})
    monkeypatch.setattr(opening, "locate", lambda *_, **__: replace(loaded, profile=profile))
    pin(site, bmc)
    return site


def test_settings_that_differ_are_judged_shown_set_and_good(
    wanting: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = with_settings(bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda _: (Slurm(),))
    where = ("-s", str(wanting))
    assert run(monkeypatch, "discover", *where) == 1
    said = capsys.readouterr().out
    assert "NumaNodesPerSocket is NPS1, expected NPS4" in said
    assert f"appliance bios apply --site {wanting} gpu-1" in said
    assert run(monkeypatch, "bios", "status", *where) == 1
    assert capsys.readouterr().out.splitlines() == [
        "  gpu-1            1 of 2 settings to set",
        "                   NumaNodesPerSocket: NPS1 -> NPS4",
    ]
    assert run(monkeypatch, "bios", "status", "--json", *where) == 1
    assert json.loads(capsys.readouterr().out)["hosts"] == {
        "gpu-1": {
            "error": "",
            "fix": "",
            "model": "DGXH100",
            "power": "On",
            "named": 2,
            "changes": [{"name": "NumaNodesPerSocket", "found": "NPS1", "wanted": "NPS4"}],
        }
    }
    assert bmc.bodies == []
    assert run(monkeypatch, "bios", "apply", "gpu-1", "--yes", *where) == 0
    assert settings["NumaNodesPerSocket"] == "NPS4"
    assert bmc.bodies[1:] == [{"ResetType": "GracefulShutdown"}, {"ResetType": "On"}]
    as_wanted = "  gpu-1            matches the profile, 2 settings of DGXH100"
    assert capsys.readouterr().out.splitlines() == [as_wanted]
    assert run(monkeypatch, "bios", "apply", "gpu-1", "--yes", *where) == 0
    assert len(bmc.bodies) == 3
    run(monkeypatch, "discover", *where)
    assert "NumaNodesPerSocket" not in capsys.readouterr().out


def test_settings_are_shown_as_a_profile_has_them(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin(site, bmc)
    with_settings(bmc)
    assert run(monkeypatch, "bios", "show", "gpu-1", "-i", str(site)) == 0
    shown = site / "shown.yml"
    shown.write_text(capsys.readouterr().out)
    data = read(shown).data
    assert isinstance(data, dict)
    model = ServerModel.model_validate(data["servers"][0])
    assert model.bios == {"NumaNodesPerSocket": "NPS1", "SriovSupport": True}
    assert model.model == "DGXH100"
    bmc.tree[SYSTEM]["Model"] = None
    assert run(monkeypatch, "bios", "show", "gpu-1", "-i", str(site)) == 0
    assert capsys.readouterr().out.startswith("servers:\n- model: '*'\n")


def test_a_host_that_carries_work_is_not_set(
    wanting: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_settings(bmc)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda _: (Slurm("job 7 of alice"),))
    assert run(monkeypatch, "bios", "apply", "gpu-1", "-i", str(wanting), "--yes") == 2
    assert "gpu-1: it carries work: job 7 of alice" in capsys.readouterr().err
    assert bmc.bodies == []


def test_a_profile_without_settings_is_refused(
    site: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("status",), ("apply", "gpu-1", "--yes")):
        assert run(monkeypatch, "bios", *words, "-i", str(site)) == 2
        assert "profile hpc lists no BIOS settings" in capsys.readouterr().err
    assert bmc.asked == []


def test_a_model_that_the_profile_does_not_name_is_not_called_good(
    wanting: Path, bmc: Bmc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_settings(bmc)
    bmc.tree[SYSTEM]["Model"] = "X13"
    assert run(monkeypatch, "bios", "status", "-i", str(wanting)) == 1
    assert "profile hpc lists no BIOS settings of X13" in capsys.readouterr().out
    run(monkeypatch, "discover", "--all", "-i", str(wanting))
    assert "lists 1 model, but not X13" in capsys.readouterr().out
