"""Puts a program in place from its maker's archive, if that is the one that was named."""

from __future__ import annotations

import hashlib
import io
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    make_parents,
    read,
    sha256,
)
from ansible_collections.appliance.host.plugins.module_utils.download import downloaded
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

MOST = 256 << 20
MOST_SECONDS = 1800
NOTE = ".from"
"""Beside the program: the archive's digest and its own."""


def is_there(path: str, archive: str) -> bool:
    """Whether the program is that of the archive, and as it was written."""
    words = (read(path + NOTE) or b"").decode("utf-8", "replace").split()
    return words[:1] == [archive] and read(path) is not None and words[1:] == [sha256(path)]


def fetched(url: str, wanted: str) -> bytes:
    """The archive. Raises Problem for any other."""
    try:
        data = downloaded(
            lambda: open_url(url, timeout=60, http_agent="appliance"), MOST, MOST_SECONDS
        )
    except Exception as error:  # noqa: BLE001 - the library raises what urllib, ssl and sockets do
        raise Problem(f"{url} cannot be fetched: {error}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise Problem(
            f"{url} is another archive than the one pinned: its sha256 is {found}, wanted is {wanted};"
            " find out which is right before you change it in section repositories"
        )
    return data


def taken_out(data: bytes, member: str, url: str) -> bytes:
    """One file of the archive. Raises Problem."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            file = archive.extractfile(member)
            if file is not None:
                return file.read()
    except (KeyError, tarfile.TarError, OSError, EOFError):
        pass
    raise Problem(f"{url} has no file {member}: it is not the archive of that program")


def main() -> None:
    """Run the module."""
    spec = {name: {"required": True} for name in ("url", "sha256", "member", "path")}
    module = AnsibleModule(spec, supports_check_mode=True)
    given = module.params
    path: str = given["path"]
    resources = [{"kind": "file", "name": path}]
    try:
        if is_there(path, given["sha256"]):
            module.exit_json(changed=False, resources=resources)
        program = taken_out(fetched(given["url"], given["sha256"]), given["member"], given["url"])
        if not module.check_mode:
            make_parents(path)
            note = f"{given['sha256']} {hashlib.sha256(program).hexdigest()}\n"
            Staged(module, Wanted(path, program, mode=0o755)).commit()
            Staged(module, Wanted(path + NOTE, note.encode())).commit()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=True, resources=resources)
