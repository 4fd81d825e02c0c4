"""A real registry (distribution's) over TLS, and images pushed into it through its API."""

import hashlib
import json
import os
import signal
import ssl
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from appliance.adapters import process
from appliance.lab.kubernetes_build import one_build
from appliance.lab.programs import REGISTRY, built
from tests.integration.api_server import CACHE

PORT = 5443
SECONDS = 30.0
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Registry:
    """At ``address``; ``folder`` holds its certificate and, below ``data``, what it keeps."""

    address: str
    folder: Path

    @property
    def url(self) -> str:
        return f"https://{self.address}:{PORT}"

    @property
    def certificate(self) -> Path:
        return self.folder / "cert.pem"

    def push(self, archive: Path, name: str, tag: str) -> str:
        """A docker archive of one image, under a name and tag; its digest."""
        with tarfile.open(archive) as opened:
            entry = json.loads(self._member(opened, "manifest.json"))[0]
            config = self._member(opened, entry["Config"])
            layers = [self._member(opened, layer) for layer in entry["Layers"]]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._blob(name, config, CONFIG),
            "layers": [self._blob(name, layer, LAYER) for layer in layers],
        }
        body = json.dumps(manifest).encode()
        self._ask("PUT", f"{self.url}/v2/{name}/manifests/{tag}", body, MANIFEST)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def spoil(self, digest: str) -> None:
        """What it keeps under a digest becomes something else, of the same length."""
        data = self.folder / "data/docker/registry/v2/blobs/sha256"
        file = data / digest[7:9] / digest[7:] / "data"
        file.write_bytes(bytes(reversed(file.read_bytes())))

    def _member(self, opened: tarfile.TarFile, name: str) -> bytes:
        file = opened.extractfile(name)
        assert file
        return file.read()

    def _blob(self, name: str, data: bytes, kind: str) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        place = self._ask("POST", f"{self.url}/v2/{name}/blobs/uploads/", b"")
        joint = "&" if "?" in place else "?"
        self._ask("PUT", f"{place}{joint}digest={digest}", data, "application/octet-stream")
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def _ask(self, method: str, url: str, body: bytes, kind: str = "") -> str:
        """Returns where the answer says to go on."""
        headers = {"Content-Type": kind} if kind else {}
        request = Request(url, data=body, method=method, headers=headers)
        with urlopen(request, timeout=60, context=self._trust()) as answer:
            return str(answer.headers.get("Location", ""))

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/v2/", timeout=2, context=self._trust()) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


@contextmanager
def serving(folder: Path, address: str) -> Iterator[Registry]:
    """The registry at an address of this machine, empty at first."""
    folder.mkdir(parents=True)
    with one_build(CACHE, lambda _: None):
        program = built(CACHE, REGISTRY, lambda _: None) / "registry"
    certificate = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=registry"
        f" -addext subjectAltName=IP:{address} -keyout {folder}/key.pem -out {folder}/cert.pem"
    )
    process.run(certificate.split())
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {
            "addr": f"{address}:{PORT}",
            "tls": {"certificate": f"{folder}/cert.pem", "key": f"{folder}/key.pem"},
        },
    }
    # JSON is YAML, too.
    (folder / "config.yml").write_text(json.dumps(settings))
    # It ends with the test, however that ends.
    words = ("setpriv", "--pdeathsig", "KILL", "--")
    argv = (*words, str(program), "serve", str(folder / "config.yml"))
    pid = process.spawn(argv, env={"OTEL_TRACES_EXPORTER": "none"}, log=folder / "log")
    try:
        found = Registry(address, folder)
        deadline = time.monotonic() + SECONDS
        while not found.answers():
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield found
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
