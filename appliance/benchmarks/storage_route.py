"""The access of each host to a shared directory, and the commands that write, read and remove there."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.storage.site import NfsMount
from appliance.stages.storage.variables import server_host, source

# Prints the nanoseconds of the copy and the digest of the data, computed before it leaves the host.
# "$1" is the file, "$2" its size in bytes.
WRITE = """set -e
umask 022
t=$(mktemp); trap 'rm -f "$t"' EXIT
head -c "$2" /dev/urandom >"$t"
{before}s=$(date +%s%N); {put}; e=$(date +%s%N){after}
echo "$((e - s)) $(sha256sum <"$t")"
"""
READ = 'for f; do printf "%s " "$f"; {get} | sha256sum; done'
TIME = "s=$(date +%s%N); {get} >/dev/null && e=$(date +%s%N) && echo $((e - s))"
# Files an hour old belong to a killed run; younger ones may belong to a running one.
REMOVE = """cd "$1" && rm -rf -- "$2"-* &&
find . -maxdepth 1 -type f -name '.appliance-*-*' -mmin +60 -delete &&
find . -maxdepth 1 -type d -name '.appliance-*-*.d' -mmin +60 -exec rm -rf {} +
"""
# All users may write there, and can see the name in the arguments: a link of theirs must not redirect root's copy to another file. So the file is created
# in a new directory, and moved. The server may map root to nobody, too: in a sticky directory that is open to all, fs.protected_regular prevents root of
# a client from creating files, because they would belong to another user. It can create a directory, and a file in it.
# Without a sticky bit users can rename that directory at once: its replacement must be closed and empty, and dd overwrites no existing file.
BEFORE = """mkdir -m 700 "$1.d"
cd "$1.d"
case "$(stat -c %a .)$(ls -A .)" in 700|2700) ;; *) echo "$1.d: another has changed it" >&2; exit 1;; esac
"""
AFTER = '\nmv -fT ./file "$1"; rmdir "$1.d"'


class StoragePath(StrEnum):
    """``local``: the exported directory itself; ``kernel``: an NFS mount; ``libnfs``: tools in user space."""

    LOCAL = "local"
    KERNEL = "kernel"
    LIBNFS = "libnfs"


PUT = {
    StoragePath.LOCAL: 'dd if="$t" of=./file bs=1M conv=excl,fsync status=none',
    StoragePath.KERNEL: 'dd if="$t" of=./file bs=1M conv=excl,fsync status=none',
    StoragePath.LIBNFS: 'nfs-cp "$t" "$1" >&2',
}
# Direct reads measure the server; the page cache would only return what this host wrote.
GET = {
    StoragePath.LOCAL: 'cat "$f"',
    StoragePath.KERNEL: 'dd if="$f" bs=1M iflag=direct status=none',
    StoragePath.LIBNFS: 'nfs-cat "$f"',
}


@dataclass(frozen=True)
class Route:
    """One host's way to a directory; ``base`` is a path, or an nfs:// address without a trailing slash."""

    host: str
    way: StoragePath
    base: str
    in_container: bool = False

    def file(self, token: str, writer: str, kind: str) -> str:
        """Path on this host of the file of ``writer``."""
        return f"{self.base}/{token}-{kind}-{writer}"

    def write(self, token: str, kind: str, size: int) -> Sequence[str]:
        """Writes ``size`` random bytes; prints nanoseconds and digest."""
        before, after = (BEFORE, AFTER) if self.way is not StoragePath.LIBNFS else ("", "")
        script = WRITE.format(put=PUT[self.way], before=before, after=after)
        return ["sh", "-c", script, "write", self.file(token, self.host, kind), str(size)]

    def read(self, token: str, kind: str, writers: Sequence[str]) -> Sequence[str]:
        """Reads the writers' files; prints a line per file: its name and digest."""
        files = [self.file(token, writer, kind) for writer in writers]
        return ["sh", "-c", READ.format(get=GET[self.way]), "read", *files]

    def time_read(self, token: str, kind: str) -> Sequence[str]:
        """Reads this host's own file; prints nanoseconds."""
        script = "f=$1; " + TIME.format(get=GET[self.way])
        return ["sh", "-c", script, "time", self.file(token, self.host, kind)]

    def remove(self, token: str) -> Sequence[str]:
        """Removes every file of this round, if files have a path (libnfs has no tool for it)."""
        return ["sh", "-c", REMOVE, "remove", self.base, token]


def routes(view: View, wanted: NfsMount) -> dict[str, Route | str]:
    """By host, its route to the directory behind a mount, or the reason why it has none."""
    return {host.name: _route(view, host, wanted) for host in view.site.hosts}


def _route(view: View, host: Host, wanted: NfsMount) -> Route | str:
    facts = view.facts.get(host.name)
    if facts is None:
        return f"{host.name} did not answer"
    own = any(export.path == wanted.export for export in view.site.storage.exports)
    if own and server_host(view.site) == host:
        return Route(host.name, StoragePath.LOCAL, wanted.export, bool(facts.os.container))
    server, path = source(view.site, host, wanted)
    if _is_mounted(facts, wanted.at, f"{server}:{path}"):
        return Route(host.name, StoragePath.KERNEL, wanted.at, bool(facts.os.container))
    if facts.os.container and facts.nfs_client == "libnfs":
        return Route(host.name, StoragePath.LIBNFS, f"nfs://{server}{path}", True)
    return f"{wanted.at} is not mounted"


def _is_mounted(facts: HostFacts, at: str, origin: str) -> bool:
    return any(f.at == at and f.source == origin for f in facts.filesystems)
