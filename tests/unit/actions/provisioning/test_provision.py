"""Provision before the first machine is touched: what is refused, in one line with its remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from appliance.actions.deployment import deploy
from appliance.actions.provisioning import provision as action
from appliance.actions.provisioning.bare_machine import Provisioned, State
from appliance.actions.provisioning.new_hosts import never_installed
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.known_hosts import KnownHosts
from appliance.adapters.process import run
from appliance.adapters.redfish import Controller
from appliance.engine.run import machines_in_use
from appliance.engine.run.schedulers import SchedulerHost
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed
from appliance.models.events import Message
from appliance.models.site import Owner
from appliance.provision import programs
from appliance.provision.manifest import Image
from tests.golden.record import SITES
from tests.support.images import image

BMC = "bmc: {address: 10.0.9.11, user: admin, password: {file: munge_key}}"


class Silent:
    """An observer that wants to hear nothing."""

    def handle(self, event: object) -> None:
        assert isinstance(event, Message)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose gpu-1 has a controller."""
    folder = tmp_path / "site"
    folder.mkdir()
    file = SITES["hpc"](folder)
    text = file.read_text()
    file.write_text(text.replace("address: 10.0.0.11}", f"address: 10.0.0.11, {BMC}}}"))
    (folder / "munge_key").write_text("x" * 40)
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Image:
    return image(tmp_path / "image")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hosts that answer nobody, behind controllers that say what is in ``on``."""
    on: list[str] = []
    monkeypatch.setattr(action, "_runs", lambda session, host: "")
    monkeypatch.setattr(action, "state", lambda known: "On" if known.host in on else "Off")
    return on


def install(
    site: Path,
    *,
    hosts: tuple[str, ...] = (),
    reinstall: tuple[str, ...] = (),
    force: bool = False,
) -> object:
    def never(names: tuple[str, ...]) -> bool:
        return False

    return action.install(Target(site), hosts, reinstall, Silent(), never, force=force)


def name(site: Path, made: Image, **more: str) -> None:
    """Names the image and a key."""
    key = site / "key"
    if not key.exists():
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
    options = "".join(f", {k}: {v}" for k, v in more.items())
    with (site / "site.yml").open("a") as file:
        file.write(
            f"provision: {{image: {made.folder}{options}}}\naccess: {{private_key: {key}}}\n"
        )


def test_a_site_without_an_image_is_told_how_to_get_one(site: Path) -> None:
    with pytest.raises(ConfigError, match="has no image for its machines") as found:
        install(site)
    assert "appliance provision build" in found.value.hint


def test_an_image_that_was_changed_goes_to_no_machine(site: Path, made: Image) -> None:
    name(site, made)
    made.path("vmlinuz").write_bytes(b"another")
    with pytest.raises(ConfigError, match="vmlinuz does not match the manifest"):
        install(site)


def test_an_unsigned_image_goes_to_no_machine_where_signers_are_named(site: Path, made: Image) -> None:  # fmt: skip
    (site / "signers").write_text("")
    name(site, made, signers="signers")
    with pytest.raises(ConfigError, match="is not signed"):
        install(site)


def test_a_host_without_a_controller_is_told(site: Path, made: Image) -> None:
    name(site, made)
    with pytest.raises(ConfigError, match="gpu-2 has no BMC"):
        install(site, hosts=("gpu-2",))


def test_who_declines_changes_nothing(site: Path, made: Image, silent: list[str]) -> None:
    name(site, made)
    assert install(site) is None
    assert not (site / "known_hosts").read_text()


def test_a_machine_that_is_on_and_silent_may_be_at_work(site: Path, made: Image, silent: list[str]) -> None:  # fmt: skip
    silent.append("gpu-1")
    name(site, made)
    with pytest.raises(ConfigError, match="gpu-1: it is on, but does not answer") as found:
        install(site)
    assert "appliance power off gpu-1 --hard --force" in found.value.hint


def test_another_system_is_lost_only_where_that_is_asked_for(site: Path, made: Image, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    name(site, made)
    monkeypatch.setattr(action, "_runs", lambda session, host: "another")
    monkeypatch.setattr(machines_in_use, "state", lambda known: "Off")
    with pytest.raises(ConfigError, match="gpu-1: already runs another operating system") as found:
        install(site)
    assert "--reinstall gpu-1" in found.value.hint
    assert install(site, reinstall=("gpu-1",)) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            SchedulerHost(Owner.SLURM, True, "", ("job 7 of alice",)),
            "it carries work: job 7 of alice",
        ),
        (ConnectionFailed("refused"), "cannot determine whether it runs jobs"),
    ],
)
def test_work_is_not_ended_by_reinstall(site: Path, made: Image, monkeypatch: pytest.MonkeyPatch, answer: SchedulerHost | ApplianceError, said: str) -> None:  # fmt: skip
    class Scheduler:
        def look(self, host: str) -> SchedulerHost:
            if isinstance(answer, ApplianceError):
                raise answer
            return answer

    name(site, made)
    monkeypatch.setattr(machines_in_use, "schedulers", lambda session: (Scheduler(),))
    monkeypatch.setattr(machines_in_use, "state", lambda known: "On")
    with pytest.raises(ConfigError, match=f"gpu-1: {said}"):
        install(site, reinstall=("gpu-1",))
    assert install(site, reinstall=("gpu-1",), force=True) is None
    monkeypatch.setattr(machines_in_use, "state", lambda known: "Off")
    assert install(site, reinstall=("gpu-1",)) is None


def test_reinstall_alone_means_these_hosts(site: Path, made: Image, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The remedy says so, and must not start to install all others."""
    text = (site / "site.yml").read_text()
    two = BMC.replace("9.11", "9.12")
    (site / "site.yml").write_text(text.replace("10.0.0.12}", f"10.0.0.12, {two}}}"))
    name(site, made)
    monkeypatch.setattr(machines_in_use, "state", lambda known: "Off")
    asked: list[tuple[str, ...]] = []

    def consent(names: tuple[str, ...]) -> bool:
        asked.append(names)
        return False

    action.install(Target(site), (), ("gpu-2",), Silent(), consent)
    assert asked == [("gpu-2",)]


def test_what_runs_the_image_is_left_alone(site: Path, made: Image, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    name(site, made)
    monkeypatch.setattr(action, "_runs", lambda session, host: made.digest)
    monkeypatch.setattr(action, "state", lambda known: pytest.fail("its controller was asked"))
    done = install(site)
    assert isinstance(done, list)
    assert [(one.host, one.state.value) for one in done] == [("gpu-1", "runs this image")]


def test_a_controller_that_does_not_say_is_told_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def fail(known: Controller) -> str:
        raise ApplianceError("it does not answer")

    monkeypatch.setattr(action, "state", fail)
    assert not action._is_on(cast(Controller, SimpleNamespace(host="gpu-1")))


def test_a_medium_is_written_for_each_host(site: Path, made: Image, tmp_path: Path) -> None:
    name(site, made)
    written = action.media_for(Target(site), ("gpu-[1-2]",), tmp_path / "out", ("gpu-2",), Silent())
    assert [file.name for file in written] == ["gpu-1.iso", "gpu-2.iso"]
    with pytest.raises(ConfigError, match="gpu-9"):
        action.media_for(Target(site), ("gpu-1",), tmp_path / "out", ("gpu-9",), Silent())


def test_a_site_without_a_key_is_told(site: Path, made: Image) -> None:
    with (site / "site.yml").open("a") as file:
        file.write(f"provision: {{image: {made.folder}}}\n")
    with pytest.raises(ConfigError, match="has no login key"):
        install(site)


def test_a_name_that_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'"a b" is not a valid package name|needs root'):
        action.build_image("12", tmp_path / "new", ("a b",), None, lambda _: None)
    assert not (tmp_path / "new").exists()


def test_programs_that_are_not_here_are_named_with_their_packages() -> None:
    with pytest.raises(ConfigError, match="not installed: dosfstools mtools") as found:
        programs.require(programs.MEDIA, lambda name: name if name == "xorriso" else None)
    assert found.value.hint == "apt-get install dosfstools mtools"


def test_what_a_host_runs_is_read_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(("ab" * 32, "", ConnectionFailed("refused")))

    def asked(session: Session, host: str) -> str:
        found = next(answers)
        if isinstance(found, ApplianceError):
            raise found
        return found

    monkeypatch.setattr(action, "identity", asked)
    found = [action._runs(cast(Session, None), "gpu-1") for _ in range(3)]
    assert found == ["ab" * 32, "another", ""]


@contextmanager
def deploying(site: Path) -> Iterator[Session]:
    with open_session(Target(site), "deploy", Silent(), changes=True, installs=True) as session:
        yield session


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, frozenset[str]]]:
    """Hosts that a system would be written to, each with those whose data may be lost."""
    found: list[tuple[str, frozenset[str]]] = []

    def take(session: Session, image: Image, key: str, known: dict[str, Controller], again: frozenset[str], limits: object) -> list[Provisioned]:  # fmt: skip
        found.extend((name, again) for name in known)
        return [Provisioned(name, State.INSTALLED) for name in known]

    monkeypatch.setattr(action, "_side_by_side", take)
    return found


def pin(site: Path, address: str) -> None:
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIHHbPJWGn4bDmY8HVAz3PHWJe8cMS1HkHqcOSVJzYyNl"
    (site / "known_hosts").write_text(f"{address} ssh-ed25519 {key}\n")


def test_a_deployment_installs_who_is_off_and_was_never_installed(site: Path, made: Image, silent: list[str], written: list[object]) -> None:  # fmt: skip
    name(site, made)
    with deploying(site) as session:
        assert never_installed(session) == ("gpu-1",)
        assert deploy._install(session, frozenset(), lambda names: names == ("gpu-1",))
    assert written == [("gpu-1", frozenset())]


def test_a_deployment_may_be_kept_from_it(site: Path, made: Image, silent: list[str], written: list[object]) -> None:  # fmt: skip
    name(site, made)
    with deploying(site) as session:
        assert not deploy._install(session, frozenset(), lambda _: False)
        assert deploy._install(session, frozenset({"gpu-2"}), lambda _: True)
    assert written == []


@pytest.mark.parametrize("why", ["on", "pinned", "hashed", "no image", "unreadable", "silent"])
def test_a_deployment_installs_nobody_else(why: str, site: Path, made: Image, silent: list[str], written: list[object], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    if why != "no image":
        name(site, made)
    if why == "on":
        silent.append("gpu-1")
    if why in ("pinned", "hashed"):
        pin(site, "10.0.0.11")
    if why == "hashed":
        run(("ssh-keygen", "-q", "-H", "-f", str(site / "known_hosts")))
        assert "10.0.0.11" not in (site / "known_hosts").read_text()
    if why == "silent":

        def fails(known: Controller) -> str:
            raise ConnectionFailed("it does not answer")

        monkeypatch.setattr(action, "state", fails)
    if why == "unreadable":
        monkeypatch.setattr(KnownHosts, "keys", _unreadable)

    def ask(names: tuple[str, ...]) -> bool:
        raise AssertionError(f"asked for {names}")

    with deploying(site) as session:
        assert deploy._install(session, frozenset(), ask)
    assert written == []


def _unreadable(known: KnownHosts, name: str) -> None:
    raise PermissionError("known_hosts")


def test_a_machine_that_could_not_be_installed_ends_the_deployment_with_its_name(site: Path, made: Image, silent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    name(site, made)
    error = ApplianceError("vda carries a partition table (gpt)", "--reinstall takes it")
    failed = [Provisioned("gpu-1", State.FAILED, error=error)]
    monkeypatch.setattr(action, "_side_by_side", lambda *_: failed)
    with deploying(site) as session, pytest.raises(ApplianceError) as found:
        deploy._install(session, frozenset(), lambda _: True)
    assert "gpu-1: not installed, so nothing was deployed" in found.value.message


def test_before_the_first_install_no_key_need_be_known(site: Path, made: Image) -> None:
    name(site, made)
    (site / "known_hosts").unlink()
    with deploying(site) as session:
        assert never_installed(session) == ("gpu-1",)


def test_who_stops_the_installing_stops_the_deployment(site: Path, made: Image, silent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    name(site, made)
    monkeypatch.setattr(action, "_side_by_side", lambda *_: [Provisioned("gpu-1", State.FAILED)])
    with deploying(site) as session:
        session.cancelled.set()
        with pytest.raises(KeyboardInterrupt):
            deploy._install(session, frozenset(), lambda _: True)
