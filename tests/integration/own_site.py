"""A site of one's own on plain hosts: the README's commands typed into a shell on a terminal, and who types them."""

import json
import os
import pty
import re
import shutil
import subprocess  # noqa: TID251 - a shell on a terminal must be held by its handle
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import select

from appliance.adapters.process import Completed, run
from appliance.config import data
from appliance.lab import rack, repository
from appliance.lab.spec import Rack, load

SECONDS = 1800.0
BLOCK = re.compile(r"^## A site of your own\n.*?^```\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"(\S+)  (ssh-\S+) (SHA256:\S+)  Pin it\? \[y/N\]: $")
CHANGE = re.compile(r"Change these hosts\? \[y/N\]: $")
# What ends badly is told, and the next line is typed all the same, as at a terminal.
SHELL = """trap 'echo "[ended with $?: $BASH_COMMAND]"' ERR
"""
ENDED = re.compile(r"^\[ended with (\d+): (.*)\]\r?$", re.MULTILINE)
EDITOR = """#!{python}
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
text = file.read_text()
for old, new in json.loads(pathlib.Path({edits!r}).read_text()):
    if new in text:
        continue
    if text.count(old) != 1:
        sys.exit(f"{{file}} holds {{old!r}} {{text.count(old)}} times")
    text = text.replace(old, new)
file.write_text(text)
"""


def readme_block() -> str:
    """The commands of the README for a site of one's own, with Slurm alone: plain hosts reach no repository of Kubernetes."""
    found = BLOCK.search((data.root() / "README.md").read_text())
    assert found, "README.md has no such block"
    return found[1].replace("--profile hpc", "--profile hpc --with slurm --without kubernetes")


@dataclass(frozen=True)
class Typed:
    """What a shell showed and how it ended; ``failed`` are the commands that did not end with 0, with their codes."""

    code: int
    text: str

    @property
    def failed(self) -> list[tuple[int, str]]:
        return [(int(code), command) for code, command in ENDED.findall(self.text)]


@dataclass(frozen=True)
class Integrator:
    """Who makes the site: the folder worked in, and the numeric user, 0 for root.

    ``names``: names the site gives the hosts, where they differ from those ``init`` writes.
    """

    rack: Rack
    folder: Path
    uid: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    site: str = "mysite"

    def prepare(self) -> None:
        """The key of the hosts' account in a place of one's own, and an editor that makes the edits of docs/own-site.md."""
        self.folder.mkdir(parents=True, exist_ok=True)
        key = self.folder / "installer.key"
        shutil.copyfile(self.rack.access_dir / "id_ed25519", key)
        key.chmod(0o600)
        edits = self.folder / "edits.json"
        edits.write_text(json.dumps(self.edits()))
        editor = self.folder / "editor"
        editor.write_text(EDITOR.format(python=sys.executable, edits=str(edits)))
        editor.chmod(0o755)
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, self.uid, self.uid)

    def edits(self) -> list[tuple[str, str]]:
        """What an integrator changes in the file that ``init`` wrote, old and new."""
        found = self.rack
        named = [(f"  - name: {old}\n", f"  - name: {new}\n") for old, new in self.names.items()]
        placed = [
            (f"    address: 10.0.0.{10 + number}\n", f"    address: {host.address}\n")
            for number, host in enumerate(found.hosts)
        ]
        login = f"  user: {found.spec.user}\n  become: true\n  private_key: ../installer.key\n"
        source = (
            f"repositories:\n  gpu:\n    mirror: {repository.address(found)}\n"
            f"    key: {repository.KEY}\n    fingerprint: {repository.fingerprint(found)}\n"
        )
        return [
            ("  user: root\n  private_key: secrets/id_ed25519\n", login),
            ("    cidr: 10.0.0.0/24\n", f"    cidr: {found.network}\n"),
            ("    gateway: 10.0.0.1\n", f"    gateway: {found.gateway}\n"),
            *named,
            *placed,
            ("\nslurm:\n", f"\n{source}\nslurm:\n"),
        ]

    def type(self, lines: str, seconds: float = SECONDS) -> Typed:
        """Types lines into a shell on a terminal, in the folder; keys are pinned only where they are the hosts' own."""
        script = self.folder / "typed.sh"
        script.write_text(SHELL + lines)
        ours, theirs = pty.openpty()
        shell = subprocess.Popen(
            self._as_user(("bash", str(script))),
            cwd=self.folder,
            env=self._environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            text = self._follow(ours, time.monotonic() + seconds)
            with (self.folder / "typed.txt").open("a") as transcript:
                transcript.write(text)
            return Typed(shell.wait(30), text)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, 9)
                shell.wait()
            os.close(ours)

    def program(self, *argv: str) -> Completed:
        """The program in the folder, off any terminal."""
        words = self._as_user(("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh"))
        return run(
            (*words, str(self.folder), "appliance", *argv),
            timeout=SECONDS,
            check=False,
            env=self._environment(),
        )

    def _follow(self, terminal: int, deadline: float) -> str:
        """Reads what is shown to its end, and answers the questions."""
        text, answered = "", 0
        # At its end a terminal gives nothing, or EIO (tty(4)).
        while True:
            assert time.monotonic() < deadline, f"not within the time:\n{text[-4000:]}"
            if not select([terminal], [], [], 1.0)[0]:
                continue
            piece = b""
            with suppress(OSError):
                piece = os.read(terminal, 65536)
            if not piece:
                return text.replace("\r\n", "\n")
            text += piece.decode(errors="replace")
            if answer := self._answer(text[answered:]):
                os.write(terminal, answer)
                answered = len(text)

    def _answer(self, shown: str) -> bytes:
        if CHANGE.search(shown):
            return b"y\n"
        if asked := PIN.search(shown):
            return b"y\n" if asked[3] == self._fingerprints().get(asked[1]) else b"n\n"
        return b""

    def _fingerprints(self) -> dict[str, str]:
        """By the site's name of a host, what its console would show: its key file's fingerprint."""
        written = ["head", *(f"gpu-{n}" for n in range(1, len(self.rack.hosts)))]
        found = {}
        for name, host in zip(written, self.rack.hosts, strict=True):
            key = host.root / "etc/ssh/ssh_host_ed25519_key.pub"
            said = run(("ssh-keygen", "-lf", str(key))).stdout
            found[self.names.get(name, name)] = said.split()[1]
        return found

    def _as_user(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Nothing of root's but that files may be read, for a checkout may lie where only root can look."""
        if not self.uid:
            return argv
        own = ("--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        caps = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
        return ("setpriv", *own, *caps, "--", *argv)

    def _environment(self) -> dict[str, str]:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {k: v for k, v in os.environ.items() if k not in {"PATH", "HOME", "COLUMNS"}}
        own = {"HOME": str(self.folder), "EDITOR": "./editor", "TERM": "dumb"}
        return kept | own | {"PATH": programs}


def main(name: str, folder: str) -> int:
    """The README's block on a standing rack of plain hosts, twice, as ``make fresh`` does it."""
    found = load(name)
    assert found, f"no rack named {name}"
    integrator = Integrator(found, Path(folder))
    integrator.prepare()
    for _ in range(2):
        typed = integrator.type(readme_block())
        sys.stdout.write(typed.text)
        if typed.code:
            return typed.code
    return 0


__all__ = ["Integrator", "Typed", "main", "rack", "readme_block"]

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
