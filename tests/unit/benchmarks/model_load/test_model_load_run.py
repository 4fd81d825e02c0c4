"""On hosts of a site: which, with what, and what a host's silence means; what the command line refuses."""

import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from appliance.actions.benchmarks.model_load import credentials
from appliance.adapters.process import Completed
from appliance.benchmarks.model_load.gates import gates
from appliance.benchmarks.model_load.request import Request, size_of
from appliance.benchmarks.model_load.run import run
from appliance.checks.check import View
from appliance.cli.main import cli
from appliance.errors import ConfigError, ConnectionFailed
from appliance.models.profile import Limit
from appliance.models.result import Status
from appliance.models.site import Site
from tests.support.sites import site_of

SITE = site_of(
    *("gpu-1", "gpu-2"),
    storage={
        "external": [{"server": "nas9", "path": "/srv/data"}],
        "mounts": [{"export": "/srv/data", "at": "/data"}],
    },
)
LIMITED = SITE.model_copy(
    update={
        "limits": {"model_load.speedup": Limit(value=2, unit="times as fast", source="contract")}
    }
)


def view(site: Site = SITE) -> View:
    return View(cast(Any, SimpleNamespace(limits={})), site, {})


class Silent:
    """A host that fails in one way."""

    def __init__(self, end: Completed | Exception) -> None:
        self.end = end
        self.asked: list[tuple[str, Sequence[str], bytes]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        self.asked.append((host, argv, input or b""))
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ConnectionFailed("connection refused", "is sshd up?"), Status.NOT_ASSESSED),
        (Completed((), 127, "", "python3: not found"), Status.NOT_ASSESSED),
        (Completed((), 0, "Killed", ""), Status.ERROR),
    ],
)
def test_a_host_that_does_not_measure_is_never_good(end: Any, status: Status) -> None:
    (result,) = run(view(), Silent(end)).results
    assert (result.status, result.host) == (status, "gpu-1")


def test_the_first_gpu_host_loads_from_scratch_and_every_mount() -> None:
    remote = Silent(Completed((), 1, "", ""))
    run(view(), remote)
    ((host, _, given),) = remote.asked
    assert host == "gpu-1"
    assert b'"places": ["/scratch", "/data"]' in given


def test_keys_go_over_standard_input_alone() -> None:
    remote = Silent(Completed((), 1, "", ""))
    run(view(), remote, Request(hosts=("gpu-2",), secrets={"AWS_SECRET_ACCESS_KEY": "hush"}))
    ((host, argv, given),) = remote.asked
    assert host == "gpu-2"
    assert not any("hush" in word for word in argv)
    assert b"hush" in given


def test_acceptance_asks_for_what_a_limit_names_and_for_nothing_else() -> None:
    assert gates(view()) == ()
    (gate,) = gates(view(LIMITED))
    assert [target.name for target in gate.targets] == ["gpu-1/scratch", "gpu-1/data"]


@pytest.mark.parametrize(("text", "size"), [("16G", 16 << 30), ("900m", 900 << 20), ("5", 5)])
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--place", "data"], "write it as /folder"),
        (["--place", "/d", "--size", "big"], "not a size"),
        (["--place", "/d", "--concurrency", "0"], "concurrency"),
        (["--place", "/d", "--loaders", "magic"], "loaders"),
        (["--here"], "--place"),
    ],
)
def test_unusable_options_are_refused(argv: list[str], why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        cli.main(["validate", "model-load", *argv], standalone_mode=False)


def test_its_options_belong_to_it_alone() -> None:
    with pytest.raises(click.UsageError, match="model-load"):
        cli.main(["validate", "storage", "--size", "1G"], standalone_mode=False)


def test_keys_are_read_as_the_aws_tools_write_them(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\naws_access_key_id = me\naws_secret_access_key = a%b=c\n")
    file.chmod(stat.S_IRUSR)
    assert credentials(file) == {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "a%b=c"}


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (
            "[default]\naws_access_key_id = me\naws_secret_access_key = hush\n",
            0o644,
            "other users can",
        ),
        ("hush\n", 0o600, "not a credentials file"),
        ("[default]\naws_access_key_id = hush\n", 0o600, "has no aws_secret_access_key"),
    ],
)
def test_a_file_of_keys_that_is_none_is_refused_without_its_words(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=why) as refused:
        credentials(file)
    assert "hush" not in refused.value.message + refused.value.hint
