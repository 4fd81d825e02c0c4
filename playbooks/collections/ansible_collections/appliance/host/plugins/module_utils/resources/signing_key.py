"""Puts a repository's signing key in place, if it is the one that was named."""

from __future__ import annotations

import os
import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    make_parents,
    read,
)
from ansible_collections.appliance.host.plugins.module_utils.download import downloaded
from ansible_collections.appliance.host.plugins.module_utils.openpgp import (
    MOST_BYTES,
    AnotherKey,
    Certificate,
    certificate,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

SPARE_SECONDS = 30 * 86400
MOST_SECONDS = 120


def kept(path: str, wanted: str) -> tuple[bytes, Certificate | None]:
    """The file that is there, and its certificate where it is one key and the wanted one."""
    there = read(path) or b""
    try:
        return there, certificate(there, wanted)
    except Problem:
        return there, None


def fetched(url: str) -> bytes:
    """What the mirror gives. Raises Problem."""
    try:
        return downloaded(
            lambda: open_url(url, timeout=30, http_agent="appliance"), MOST_BYTES + 1, MOST_SECONDS
        )
    except Exception as error:  # noqa: BLE001 - the library raises what urllib, ssl and sockets do
        raise Problem(f"the signing key cannot be fetched from {url}: {error}") from None


def judged(text: bytes, url: str, wanted: str) -> Certificate:
    """The certificate of a fetched key. Raises Problem for any other and for any more."""
    try:
        return certificate(text, wanted)
    except AnotherKey as other:
        raise Problem(
            f"the key at {url} is not the one that was named: its fingerprint is {other.fingerprint}, wanted is {wanted};"
            " ask whose repository this is before you change its fingerprint in section repositories"
        ) from None
    except Problem as problem:
        raise Problem(
            f"the key at {url} is refused: {problem}; it must be one public key with the fingerprint {wanted}"
        ) from None


def wanted_key(found: Certificate | None, url: str, wanted: str) -> Certificate:
    """The kept one while it lives long enough or the mirror does not answer, else the mirror's. Raises Problem."""
    if found and not 0 < found.expires < time.time() + SPARE_SECONDS:
        return found
    try:
        text = fetched(url)
    except Problem:
        if found:
            return found
        raise
    return judged(text, url, wanted)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "url": {"required": True},
            "fingerprint": {"required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path, url = module.params["path"], module.params["url"]
    wanted = re.sub(r"\s", "", module.params["fingerprint"]).upper()
    try:
        there, found = kept(path, wanted)
        # Written anew from what was judged: programs that read the file find no more in it than was read here.
        data = wanted_key(found, url, wanted).written(path)
        if data != there and not module.check_mode:
            make_parents(path)
            mine = Wanted(path, data, owner=str(os.geteuid()), group=str(os.getegid()))
            Staged(module, mine).commit()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=data != there, resources=[{"kind": "file", "name": path}])
