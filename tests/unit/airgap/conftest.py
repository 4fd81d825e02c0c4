"""A small archive of packages on this machine, signed and served as a publisher's, and a program that downloads from it."""

import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from appliance.adapters.process import run
from appliance.airgap.apt import Source
from appliance.lab import deb, repository


class _Quiet(SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        cast(Any, self.server).asked.append(self.path)
        super().do_GET()


class Archive:
    """A flat repository. ``asked``: paths of all requests."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.folder, self.keys = folder, keys
        self.fingerprint = repository.make_keyring(keys, "publisher")
        self.packages: list[deb.Package] = []
        folder.mkdir()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        self.asked: list[str] = []
        cast(Any, self._server).asked = self.asked
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def source(self) -> Source:
        return Source("publisher", self.uri, "/", (), self.folder / repository.KEY)

    def add(self, name: str, version: str, relations: Mapping[str, str] = {}) -> Path:
        """A package; the lists are written by ``publish``."""
        found = deb.Package(name, version, name, relations=relations)
        self.packages.append(found)
        return deb.build(found, self.folder)

    def publish(self, keys: Path | None = None) -> None:
        """Writes the signed lists; ``keys``: of another signer, whose public key is not published."""
        rows = [deb.index(p, self.folder / p.file_name) for p in self.packages]
        (self.folder / "Packages").write_text("\n".join(rows))
        repository.sign(cast(Any, None), self.folder, keys or self.keys)
        if keys is None:
            with repository._keyring(self.keys) as gpg:
                public = run((*gpg, "--armor", "--export")).stdout
            (self.folder / repository.KEY).write_text(public)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """Slurm's daemon needs munge; jq needs nothing; two packages exclude each other."""
    made = Archive(tmp_path / "archive", tmp_path / "keys")
    made.add("munge", "0.5")
    made.add("slurmd", "22.05", {"Depends": "munge"})
    made.add("jq", "1.6")
    made.add("one", "1", {"Conflicts": "other"})
    made.add("other", "1", {"Conflicts": "one"})
    made.publish()
    yield made
    made.close()
