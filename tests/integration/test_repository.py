"""Package sources that are not signed, or not by the key that was named, are refused; what was installed stays."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.lab import repository
from appliance.lab.driver.packages import Driver
from appliance.lab.spec import RackSpec
from tests.integration.rack import Bench, own_name, raised

pytestmark = [pytest.mark.rack, pytest.mark.slow]

VERSION = "580.178.04"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A rack of one GPU host, with stage base."""
    with raised(RackSpec(own_name("source"), 2), tmp_path_factory.mktemp("source"), Bench) as found:
        first = found.deploy("--json", "--stage", "base")
        assert first.end() in {0, 3}, first.tail
        yield found


@pytest.fixture(autouse=True)
def whole(bench: Bench) -> Iterator[None]:
    """The repository as it was, after each test."""
    yield
    repository.publish(bench.rack, [Driver(VERSION)])


def _cause(bench: Bench) -> str:
    """Why the stage failed."""
    deployment = bench.deploy("--json", "--stage", "gpu")
    assert deployment.end() == 1, deployment.tail
    run = bench.journal("run_started")[-1]["run"]
    (failure,) = bench.journal("host_failed", run)
    assert bench.shell("gpu-1", "nvidia-smi").returncode
    return str(failure["cause"])


def _unsigned(served: Path, other: Path) -> None:
    (served / "InRelease").unlink()


def _signed_by_another(served: Path, other: Path) -> None:
    repository.make_keyring(other, "somebody else")


def _changed_afterwards(served: Path, other: Path) -> None:
    release = (served / "InRelease").read_text()
    (served / "InRelease").write_text(release.replace("Origin: appliance lab", "Origin: nobody"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_unsigned, "not signed"),
        (_signed_by_another, "not signed"),
        (_changed_afterwards, "not signed"),
    ],
)
def test_repository_without_the_right_signature_is_refused(
    bench: Bench, tmp_path: Path, spoil: Callable[[Path, Path], None], words: str
) -> None:
    served = repository.served(bench.rack)
    spoil(served, tmp_path / "other")
    if (tmp_path / "other").exists():
        repository.sign(bench.rack, served, tmp_path / "other")
    assert words in _cause(bench)


def test_key_that_is_not_the_one_named_is_refused(bench: Bench) -> None:
    file = bench.site / "site.yml"
    text = file.read_text()
    bench.shell("gpu-1", "rm -f /usr/share/keyrings/appliance-nvidia.asc")
    own = repository.fingerprint(bench.rack)
    file.write_text(text.replace(own, own[::-1]))
    try:
        cause = _cause(bench)
    finally:
        file.write_text(text)
    assert "is not the one that was named" in cause
    assert own in cause


def test_driver_that_no_repository_offers_is_refused_with_those_there_are(bench: Bench) -> None:
    repository.publish(bench.rack, [Driver("580.82.07")])
    file = bench.site / "site.yml"
    text = file.read_text()
    file.write_text(f'{text}\nsoftware:\n  driver_branch: "{VERSION}"\n')
    try:
        cause = _cause(bench)
    finally:
        file.write_text(text)
    assert f"of driver {VERSION} (there is 580.82.07)" in cause


def test_sound_repository_is_taken(bench: Bench) -> None:
    deployment = bench.deploy("--json", "--stage", "gpu")
    assert deployment.end() in {0, 3}, deployment.tail
    said = bench.shell("gpu-1", "nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert said.stdout.split() == [VERSION] * 8
