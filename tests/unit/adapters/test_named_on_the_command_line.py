"""Files that a command line names, and that say whom or what the program believes: nobody else may be able to write them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.actions.benchmarks.serving import key
from appliance.adapters import signing
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import run
from appliance.benchmarks.serving.http import server
from appliance.ownership import Untrusted
from tests.support.fake_kubernetes import kubeconfig


def signed(folder: Path) -> tuple[Path, Path]:
    """A signature of "x", and the file that allows its signer."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.fspath(folder / "key")])
    (folder / "content").write_text("x")
    signature = signing.sign(signing.key_of(folder / "key"), folder / "content")
    allowed = folder / "allowed_signers"
    allowed.write_text(f"ada {(folder / 'key.pub').read_text()}")
    return signature, allowed


def signers(folder: Path) -> tuple[Path, Callable[[], object]]:
    signature, allowed = signed(folder)
    return allowed, lambda: signing.signer_of(signature, b"x", allowed)


def cluster(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = kubeconfig(folder, "https://10.0.0.1:6443")
    return file, lambda: KubernetesApi(file).server


def secret(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = folder / "key"
    file.touch(mode=0o600)
    file.write_text("k" * 20)
    return file, lambda: key(file)


def authority(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = folder / "ca.pem"
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x"
    )
    run([*words.split(), "-keyout", os.fspath(folder / "ca.key"), "-out", os.fspath(file)])
    return file, lambda: server("http://127.0.0.1:1", os.fspath(file))


@pytest.mark.parametrize("made", [signers, cluster, secret, authority])
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to somebody else")
def test_a_file_of_somebody_elses_is_not_believed(
    made: Callable[[Path], tuple[Path, Callable[[], object]]], tmp_path: Path
) -> None:
    file, use = made(tmp_path)
    assert use()
    os.chown(file, 65534, -1)
    with pytest.raises(Untrusted, match="belongs to"):
        use()
    os.chown(file, 0, -1)
    file.parent.chmod(0o777)
    with pytest.raises(Untrusted, match="can be written by every user"):
        use()


def test_signers_that_everybody_may_add_to_are_not_believed(tmp_path: Path) -> None:
    file, use = signers(tmp_path)
    assert use() == "ada"
    file.chmod(0o666)
    with pytest.raises(Untrusted, match="can be written by every user"):
        use()
