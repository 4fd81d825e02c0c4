"""Whose kubeconfig is used, and how one's own is made: the key stays here, the file is its owner's alone."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.actions.kubernetes import kubeconfig as action
from appliance.actions.sites.opening import Target
from appliance.adapters.certificates import KeyPair
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import Completed, run
from appliance.cli.main import cli
from appliance.config.document import read
from appliance.config.load import load_site
from appliance.engine.run import kubeconfig
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed
from appliance.models.site import Site
from tests.support.authority import Authority

SITE = """\
version: 1
name: acme
profile: hpc
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head-1, roles: [control], address: 10.1.0.10}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
secrets:
  munge_key: {env: MUNGE}
  slurmdbd_password: {env: DBD}
storage: {scratch: null}
"""


class Remote:
    """Control hosts of one cluster; some are silent."""

    def __init__(self, *silent: str, code: int = 0, said: str = "") -> None:
        self.authority = Authority()
        self.asked: list[str] = []
        self.sent = ""
        self._silent, self._code, self._said = silent, code, said

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        del timeout
        self.asked.append(host)
        if host in self._silent:
            raise ConnectionFailed(f"{host} does not answer", "power it on", host)
        if self._code:
            return Completed(tuple(argv), self._code, "", self._said)
        request = (input or b"").decode()
        self.sent += request + "".join(argv)
        answer = self.authority.pem + self.authority.sign(request, int(argv[-1]))
        return Completed(tuple(argv), 0, answer, "")


def site(control: int = 1, **cluster: Any) -> Site:
    heads = [
        {"name": f"head-{n}", "roles": ["control"], "address": f"10.1.0.{n}"}
        for n in range(1, control + 1)
    ]
    given = {"address": "10.1.0.100", **cluster} if control > 1 else cluster
    return Site.model_validate(
        {
            "version": 1,
            "name": "acme",
            "networks": {"management": {"cidr": "10.1.0.0/24"}},
            "hosts": heads,
            "kubernetes": given,
        }
    )


def test_the_file_is_its_owners_alone_and_the_client_takes_it(tmp_path: Path) -> None:
    remote = Remote()
    (tmp_path / "kubeconfig").write_text("an older one, open to all")
    found = kubeconfig.issue(remote, site(version="1.35"), tmp_path, 7)
    assert found.file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [found.file]
    assert found.server == "https://10.1.0.1:6443"
    assert found.until - datetime.now(UTC) < timedelta(days=7, hours=1)
    with KubernetesApi(found.file) as api:
        assert api.server == found.server
    document: Any = read(found.file).data
    assert document["current-context"] == f"{found.user}@acme"
    assert "PRIVATE KEY" not in remote.sent


def test_three_control_planes_are_reached_at_their_address_and_the_first_that_answers_signs(
    tmp_path: Path,
) -> None:
    remote = Remote("head-1")
    found = kubeconfig.issue(remote, site(3, version="1.35"), tmp_path, 1)
    assert found.server == "https://10.1.0.100:6443"
    assert remote.asked == ["head-1", "head-2"]


def test_where_no_control_host_answers_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="head-2 does not answer"):
        kubeconfig.issue(Remote("head-1", "head-2"), site(2, version="1.35"), tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "said", "message", "remedy"),
    [
        (kubeconfig.NO_CLUSTER, "", "no cluster yet", "appliance deploy"),
        (kubeconfig.NO_KEY, "", "key of the cluster's CA", "a client certificate"),
        (1, "x\nThe connection to the server was refused", "was refused", "appliance health"),
        (1, "", "no reason given", "appliance health"),
    ],
)
def test_a_host_that_cannot_sign_says_why(
    tmp_path: Path, code: int, said: str, message: str, remedy: str
) -> None:
    with pytest.raises(ApplianceError) as refused:
        kubeconfig.issue(Remote(code=code, said=said), site(version="1.35"), tmp_path, 1)
    assert message in refused.value.message
    assert remedy in refused.value.hint
    assert refused.value.host == "head-1"
    assert list(tmp_path.iterdir()) == []


def test_a_site_without_a_cluster_of_its_own_is_refused_before_a_host_is_asked(
    tmp_path: Path,
) -> None:
    remote = Remote()
    none = Site.model_validate({**site().model_dump(mode="json"), "kubernetes": None})
    for given, words in (
        (none, "no cluster"),
        (site(external="theirs"), "not managed by appliance"),
    ):
        with pytest.raises(ConfigError, match=words):
            kubeconfig.issue(remote, given, tmp_path, 1)
    assert remote.asked == []


def test_a_folder_nobody_may_write_to_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        kubeconfig.issue(Remote(), site(version="1.35"), tmp_path / "missing", 1)


@pytest.mark.skipif(
    not all(map(shutil.which, ("openssl", "sh"))), reason="this machine has no openssl to sign with"
)
def test_a_real_openssl_signs_on_the_host(tmp_path: Path) -> None:
    pki = tmp_path / "kubernetes/pki"
    pki.mkdir(parents=True)
    (tmp_path / "kubernetes/admin.conf").touch()
    made = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=kubernetes -days 9"
    run((*made.split(), "-keyout", str(pki / "ca.key"), "-out", str(pki / "ca.crt")))
    (tmp_path / "kubectl").write_text("#!/bin/sh\nprintf 'bound %s\\n' \"$*\" >>$0.log\n")
    (tmp_path / "kubectl").chmod(0o755)
    script = kubeconfig.SIGN.replace("/etc/kubernetes", str(tmp_path / "kubernetes"))
    pair = KeyPair.fresh()
    done = run(
        ("sh", "-c", script, "sign", "3"),
        input=pair.request("ada", kubeconfig.GROUP),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    found = pair.signed(done.stdout)
    assert Authority.names(found.certificate) == {"ada", kubeconfig.GROUP}
    assert timedelta(days=2) < found.until - datetime.now(UTC) < timedelta(days=3, hours=1)
    assert f"--group={kubeconfig.GROUP}" in (tmp_path / "kubectl.log").read_text()


def furnished(folder: Path, more: str = "") -> Path:
    (folder / "site.yml").write_text(SITE + more)
    return folder


def test_a_flag_goes_before_all_and_the_variable_where_the_site_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, quiet = Target(furnished(tmp_path)), action_observer()
    monkeypatch.setenv("KUBECONFIG", "/from/variable")
    assert action.find(Path("/from/flag"), target, quiet) == Path("/from/flag")
    assert action.find(None, target, quiet) == Path("/from/variable")
    assert action.find(None, Target(), quiet) == Path("/from/variable")
    monkeypatch.setenv("KUBECONFIG", "")
    assert action.find(None, target, quiet) == tmp_path / "kubeconfig"
    (tmp_path / "theirs").touch()
    external = furnished(tmp_path, "kubernetes: {external: theirs}\n")
    assert action.of_site(load_site(external)) == tmp_path / "theirs"


def test_another_cluster_than_the_sites_is_never_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, own, quiet = Target(furnished(tmp_path)), tmp_path / "kubeconfig", action_observer()
    own.touch()
    monkeypatch.setenv("KUBECONFIG", "/from/variable")
    with pytest.raises(ConfigError, match="KUBECONFIG is /from/variable, but site") as refused:
        action.find(None, target, quiet)
    assert "--kubeconfig FILE" in refused.value.hint
    assert action.find(Path("/from/flag"), target, quiet) == Path("/from/flag")
    (tmp_path / "link").symlink_to(own)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "link"))
    assert action.find(None, target, quiet) == tmp_path / "link"


def test_several_files_in_the_variable_are_no_single_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, quiet = Target(furnished(tmp_path)), action_observer()
    monkeypatch.setenv("KUBECONFIG", ":/one:/one")
    assert action.find(None, target, quiet) == Path("/one")
    monkeypatch.setenv("KUBECONFIG", ":")
    assert action.find(None, target, quiet) == tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", "/one:/two")
    for where in (target, Target()):
        with pytest.raises(ConfigError, match="several files: /one:/two") as refused:
            action.find(None, where, quiet)
        assert "--kubeconfig FILE" in refused.value.hint
    assert action.find(Path("/flag"), target, quiet) == Path("/flag")


def test_a_site_that_is_ill_says_so_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ConfigError) as refused:
        action.find(None, Target(tmp_path / "none"), action_observer())
    assert "no kubeconfig was given" not in refused.value.message


def test_the_verb_says_where_it_lies_and_never_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = Remote()
    monkeypatch.setattr(
        action,
        "fetch",
        lambda _target, days, _observer: kubeconfig.issue(
            remote, site(version="1.35"), tmp_path, days
        ),
    )
    said = CliRunner().invoke(cli, ["kubeconfig", "--days", "2"], standalone_mode=False)
    assert str(tmp_path / "kubeconfig") in said.output
    shown = CliRunner().invoke(cli, ["kubeconfig", "--json"], standalone_mode=False)
    assert set(json.loads(shown.output)) == {
        "version",
        "file",
        "namespaces",
        "server",
        "user",
        "until",
    }
    content = (tmp_path / "kubeconfig").read_text()
    longest = max(content.split(), key=len)
    assert longest not in said.output + shown.output


def action_observer() -> Any:
    """Nobody listens."""

    class Silent:
        def handle(self, event: object) -> None: ...

    return Silent()
