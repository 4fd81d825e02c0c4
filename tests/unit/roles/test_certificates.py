"""The program that renews a control plane's certificates, on real ones, with kubeadm and the parts pretended."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from appliance.adapters.process import run
from tests.support.role_programs import program

FILE = Path("roles/kubernetes/files/usr/local/sbin/appliance-certificates")
OWN = ("apiserver.crt", "etcd/server.crt")
AUTHORITIES = ("ca.crt", "etcd/ca.crt")


def certify(file: Path, days: int) -> None:
    """A certificate that lives so many days."""
    file.parent.mkdir(parents=True, exist_ok=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    made = ("-subj", "/CN=x", "-days", str(days), "-keyout", "/dev/null", "-out", str(file))
    run(("openssl", "req", "-x509", *key, *made))


class Plane:
    """A control plane: its certificates, what was called, and what kubeadm does."""

    def __init__(self, module: ModuleType, pki: Path) -> None:
        self.module = module
        self.pki = pki
        self.calls: list[tuple[str, ...]] = []
        self.real: Callable[..., tuple[int, str]] = module.run
        self.renews = 365
        self.says = (0, "")
        for name in AUTHORITIES:
            certify(pki / name, 5)
        for name in OWN:
            certify(pki / name, 300)

    def run(self, *argv: str) -> tuple[int, str]:
        if argv[0] == "openssl":
            return self.real(*argv)
        self.calls.append(argv)
        if argv[0] == "kubeadm" and self.renews:
            for name in OWN:
                certify(self.pki / name, self.renews)
        return self.says if argv[0] == "kubeadm" else (0, "")

    def main(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
        monkeypatch.setattr("sys.argv", ["appliance-certificates", *words])
        code = self.module.main()
        assert isinstance(code, int)
        return code


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plane:
    module = program(FILE)
    made = Plane(module, tmp_path / "pki")
    for name, value in (("PKI", str(tmp_path / "pki")), ("PARKED", str(tmp_path / "parked"))):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "run", made.run)
    monkeypatch.setattr(module, "is_ready", lambda: True)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return made


def test_certificates_with_time_left_are_left_alone(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plane.main(monkeypatch) == 0
    assert plane.calls == []


def test_all_are_renewed_before_the_first_expires_and_every_part_takes_them_up(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certify(plane.pki / "etcd/server.crt", 59)
    assert plane.main(monkeypatch) == 0
    assert plane.calls[0] == ("kubeadm", "certs", "renew", "all")
    ended = [argv[-1] for argv in plane.calls[1:]]
    assert ended == ["etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kube-vip"]
    assert "etcd/server.crt" in capsys.readouterr().out


def test_more_days_than_a_certificate_lives_renew_all_at_once(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plane.main(monkeypatch, "--days", "400") == 0
    assert plane.calls[0] == ("kubeadm", "certs", "renew", "all")


@pytest.mark.parametrize(
    ("renews", "says", "line"),
    [
        (0, (1, "cannot read ca.key\n"), "kubeadm certs renew all: cannot read ca.key"),
        (
            0,
            (1, "error: no key\nTo see the stack trace of this error execute with --v=5\n"),
            "error: no key",
        ),
        (0, (0, ""), "was not renewed by kubeadm"),
    ],
)
def test_what_kubeadm_does_not_do_is_told(
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    renews: int,
    says: tuple[int, str],
    line: str,
) -> None:
    certify(plane.pki / "apiserver.crt", 10)
    plane.renews, plane.says = renews, says
    assert plane.main(monkeypatch) == 1
    assert line in capsys.readouterr().err


def test_a_part_that_does_not_come_back_ends_it(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certify(plane.pki / "apiserver.crt", 10)
    monkeypatch.setattr(plane.module, "is_ready", lambda: False)
    monkeypatch.setattr(plane.module, "WAIT", -1)
    assert plane.main(monkeypatch) == 1
    assert [argv[0] for argv in plane.calls] == ["kubeadm", "pkill"]
    assert "the API is not ready" in capsys.readouterr().err


def test_a_file_that_is_no_certificate_is_named(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (plane.pki / "apiserver.crt").write_text("nothing")
    assert plane.main(monkeypatch) == 1
    assert "apiserver.crt" in capsys.readouterr().err
    assert plane.calls == []


def test_nothing_is_renewed_while_etcd_is_restored(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certify(plane.pki / "apiserver.crt", 10)
    (tmp_path / "parked").mkdir()
    assert plane.main(monkeypatch) == 1
    assert plane.calls == []


def authority(folder: Path) -> None:
    """A certificate of a cluster's authority with its key."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    made = ("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"))
    run(("openssl", "req", "-x509", *key, "-subj", "/CN=kubernetes", "-days", "3650", *made))


def end(file: Path) -> str:
    """When a certificate ends."""
    return run(("openssl", "x509", "-noout", "-enddate", "-serial", "-in", str(file))).stdout


def test_prometheus_gets_a_certificate_of_the_authority_and_a_new_one_before_it_ends(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority(plane.pki)
    place = tmp_path / "cluster"
    monkeypatch.setattr(plane.module, "WATCHER", str(place))
    assert plane.main(monkeypatch, "--watcher") == 0
    assert not place.exists()
    place.mkdir()
    assert plane.main(monkeypatch, "--watcher") == 0
    told = run(("openssl", "x509", "-noout", "-text", "-in", str(place / "client.crt"))).stdout
    assert "CN = appliance-prometheus" in told
    assert "TLS Web Client Authentication" in told
    assert (place / "client.key").stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in place.iterdir()) == ["ca.crt", "client.crt", "client.key"]
    first = end(place / "client.crt")
    assert plane.main(monkeypatch, "--watcher") == 0
    assert end(place / "client.crt") == first
    assert plane.main(monkeypatch, "--watcher", "--days", "364") == 0
    assert end(place / "client.crt") == first
    assert plane.main(monkeypatch, "--watcher", "--days", "366") == 0
    assert end(place / "client.crt") != first
    # Another cluster's authority knows nobody of the one before.
    second = end(place / "client.crt")
    authority(plane.pki)
    assert plane.main(monkeypatch, "--watcher") == 0
    assert end(place / "client.crt") != second
    assert plane.calls == []


def test_an_authority_without_its_key_is_named(
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(plane.module, "WATCHER", str(tmp_path))
    assert plane.main(monkeypatch, "--watcher") == 1
    assert "openssl x509" in capsys.readouterr().err
    assert not (tmp_path / "client.crt").exists()
