"""What one more host costs is measured as an installation deploys it: modules are packed before, and bytecode is kept."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import per_host
from benchmarks.timing import Cost


def test_what_is_paid_once_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    environments: list[Mapping[str, str]] = []

    @contextmanager
    def rack(hosts: int) -> Iterator[Path]:
        raised.append(hosts)
        yield Path("site")

    def alone(*_: object, env: Mapping[str, str], **__: object) -> Cost:
        environments.append(env)
        packing = 5.0 if len(raised) == 1 else 0.0
        return Cost(wall=60.0, cpu=4.0 + 2.0 * raised[-1] + packing)

    monkeypatch.setattr(per_host, "_rack", rack)
    monkeypatch.setattr(per_host, "alone", alone)
    monkeypatch.setattr(per_host, "_told", lambda site: ({"base": (2, 2)}, {"base": 9.0}))
    done = CliRunner().invoke(per_host.main, ["--hosts", "2", "--hosts", "3", "--hosts", "4"])
    assert "4.0 s and 2.00 s a host" in done.output
    assert done.exit_code == 0
    assert raised == [2, 2, 3, 4]
    assert all(env["PYTHONDONTWRITEBYTECODE"] == "" for env in environments)
