"""Adding a host: its lines in site.yml, its key, and what is deployed; nothing is written before it is valid and trusted."""

from pathlib import Path
from typing import Any

import pytest

from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import addition
from appliance.actions.sites.opening import Target
from appliance.config.finding import InvalidConfig
from appliance.engine.plan.selection import Filters
from appliance.errors import ApplianceError, ConfigError
from tests.support.engine_fakes import Recorder
from tests.support.node_site import SITE

ONE_HEAD = SITE.replace("[control, gpu]", "[login, gpu]")
LAST = "    address: 10.1.0.12\n"
ADDED = "  - name: gpu-4\n    roles: [gpu]\n    address: 10.1.0.14\n"
DONE: Any = object()


class Bench:
    """A site on disk; trust and deployments are noted."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.trusts: bool | Exception | None = True
        self.code = 0
        self.deployed: list[Filters] = []
        self.shown: list[tuple[str, ...]] = []
        self.agrees = True
        self.order: list[str] = []
        self.others_fail = False

    def add(self, name: str = "gpu-4", address: str = "10.1.0.14", **more: Any) -> addition.Added:
        def consent(difference: tuple[str, ...]) -> bool:
            self.shown.append(difference)
            return self.agrees

        words = {"roles": ("gpu",), "hardware_class": None, **more}
        return addition.add_host(
            Target(self.file.parent),
            name,
            address,
            observer=Recorder(),
            consent=consent,
            may_pin=lambda _: True,
            **words,
        )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path / "site.yml")
    made.file.write_text(ONE_HEAD)
    (tmp_path / "known_hosts").write_text("")
    monkeypatch.setenv("A", "x")

    def trusted(loaded: Any, name: str, _: object) -> bool | None:
        assert loaded.site.host(name)
        assert made.file.read_text() == ONE_HEAD
        if isinstance(made.trusts, Exception):
            raise made.trusts
        return made.trusts

    def deployed(_: object, filters: Filters, *__: object) -> Deployed:
        assert "gpu-4" in made.file.read_text()
        made.deployed.append(filters)
        made.order.append("host")
        return Deployed(DONE, made.code)

    def others(*_: object) -> Any:
        made.order.append("others")
        failed = made.order == ["others"] and made.others_fail
        return ("head",), Deployed(DONE, 1) if failed else None

    monkeypatch.setattr(addition, "trusted", trusted)
    monkeypatch.setattr(addition, "deploy", deployed)
    monkeypatch.setattr(addition, "pending", lambda *_: frozenset())
    monkeypatch.setattr(addition, "deploy_others", others)
    return made


def test_it_is_written_below_the_last_host_trusted_and_deployed(bench: Bench) -> None:
    done = bench.add()
    assert (done.exit_code, done.others) == (0, ("head",))
    assert bench.file.read_text() == ONE_HEAD.replace(LAST, LAST + ADDED)
    assert bench.deployed == [Filters(limit=("gpu-4",))]
    assert "+  - name: gpu-4" in bench.shown[0]
    assert bench.order == [
        "others",
        "host",
        "others",
    ]  # slurmctld must list it before it registers.


def test_where_the_others_fail_the_host_is_not_deployed(bench: Bench) -> None:
    bench.others_fail = True
    assert bench.add().exit_code == 1
    assert not bench.deployed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "gpu-1"}, "gpu-1 is in the site already"),
        ({"address": "10.9.0.1"}, "10.9.0.1"),
        ({"address": "10.1.0.11"}, "10.1.0.11"),
        ({"name": "Not a name"}, "Not a name"),
        ({"hardware_class": "no-such-class"}, "no-such-class"),
        ({"address": "10.1.0.14\n    gpus: 2"}, "gpus"),
    ],
)
def test_what_makes_no_valid_site_is_refused_and_nothing_is_written(
    given: dict[str, Any], said: str, bench: Bench
) -> None:
    with pytest.raises((ConfigError, InvalidConfig)) as caught:
        bench.add(**given)
    assert caught.value.exit_code == 2
    assert said in str(caught.value) or said == "gpus"
    assert bench.file.read_text() == ONE_HEAD
    assert not bench.deployed
    assert list(bench.file.parent.glob(".site-*")) == []


@pytest.mark.parametrize("trusts", [None, ApplianceError("gpu-4: does not answer", "power it on")])
def test_a_host_that_is_not_trusted_is_not_added(trusts: Exception | None, bench: Bench) -> None:
    bench.trusts = trusts
    if trusts:
        with pytest.raises(ApplianceError, match="does not answer"):
            bench.add()
    else:
        assert bench.add().exit_code == 1
    assert bench.file.read_text() == ONE_HEAD
    assert not bench.deployed


def test_who_declines_changes_nothing(bench: Bench) -> None:
    bench.agrees = False
    assert bench.add().exit_code == 1
    assert bench.file.read_text() == ONE_HEAD


def test_a_failed_deployment_keeps_its_exit_code(bench: Bench) -> None:
    bench.code = 1
    done = bench.add()
    assert (done.exit_code, bench.order) == (1, ["others", "host"])
