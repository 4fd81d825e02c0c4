"""appliance waive keeps who, why and until when, and refuses what cannot be accepted."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.command_line import run
from tests.support.site_files import ready_site

Told = pytest.CaptureFixture[str]
SOON = (date.today() + timedelta(days=30)).isoformat()
WHY = ("--reason", "the board is ordered", "--until", SOON)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Four GPU hosts that nobody asks, so that nobody need have pinned their keys."""
    folder = ready_site(tmp_path / "mysite")
    (folder / "known_hosts").unlink()
    return folder


def _waive(monkeypatch: pytest.MonkeyPatch, site: Path, *words: str) -> int:
    return run(monkeypatch, "waive", *words, "--site", str(site))


def test_a_waiver_is_kept_listed_and_withdrawn(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told
) -> None:
    assert _waive(monkeypatch, site, "gpu.ecc@gpu-3", *WHY, "--by", "Ann") == 0
    assert (
        f"gpu.ecc@gpu-3 waived by Ann until {SOON}: the board is ordered" in capsys.readouterr().out
    )
    assert _waive(monkeypatch, site, "--list", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(w["check"], w["target"], w["counts"]) for w in told["waivers"]] == [
        ("gpu.ecc", "gpu-3", True)
    ]
    assert _waive(monkeypatch, site, "--withdraw", "gpu.ecc@gpu-3") == 0
    assert _waive(monkeypatch, site, "--list") == 0
    assert "has no waiver" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name what to waive"),
        (("gpu.ecc",), "needs --reason and --until"),
        (("gpu.ecc", "--reason", "x"), "needs --reason and --until"),
        (("gpu.ecc", "--reason", " ", "--until", SOON), "--reason is empty"),
        (
            ("gpu.ecc", "--reason", "x", "--until", "2020-01-01"),
            "--until 2020-01-01 is in the past",
        ),
        (("gpu.ecc", "--reason", "x", "--until", "2090-01-01"), "more than a year away"),
        (("gpu.ecc", "--reason", "x", "--until", "soon"), "soon"),
        (("gpu.eccc", *WHY), 'did you mean "gpu.ecc"?'),
        (("gpu.ecc@gpu-33", *WHY), 'did you mean "gpu-3"?'),
        (("gpu.ecc@", *WHY), "not CHECK or CHECK@TARGET"),
        (("simulated", *WHY), "simulated hardware can never be accepted"),
        (("stage.slurm", *WHY), "must be deployed"),
        (("host.reachable@gpu-1", *WHY), "nothing is known about a host that does not answer"),
        (("--withdraw", "gpu.ecc"), "there is no waiver gpu.ecc"),
        (("--list", "gpu.ecc"), "--list excludes a finding"),
    ],
)
def test_what_cannot_be_waived_is_refused_in_one_line(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Told,
    words: tuple[str, ...],
    said: str,
) -> None:
    assert _waive(monkeypatch, site, *words) == 2
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert "Traceback" not in told.err
