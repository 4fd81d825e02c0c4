"""Asks a service of this host over HTTP, and waits until it answers."""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

MOST_BYTES = 16 << 20

SPEC = {
    "url": {"required": True},
    "has": {"type": "list", "elements": "str", "default": []},
    "lacks": {"type": "list", "elements": "str", "default": []},
    "counts": {"type": "dict", "default": {}},
    "validate_certs": {"type": "bool", "default": True},
    "attempts": {"type": "int", "default": 1},
    "delay": {"type": "float", "default": 1.0},
    "timeout": {"type": "int", "default": 10},
    "fails": {"type": "str", "default": ""},
}


def asked(given: dict[str, Any]) -> str:
    """Why one request was not answered as wanted; "" where it was."""
    try:
        with open_url(
            given["url"],
            timeout=given["timeout"],
            use_proxy=False,
            validate_certs=given["validate_certs"],
            http_agent="appliance",
        ) as answer:
            text = answer.read(MOST_BYTES).decode("utf-8", "replace")
    except Exception as error:  # noqa: BLE001 - the library raises what urllib, ssl and sockets do
        return str(error) or type(error).__name__
    wrong = [f"lacks {word}" for word in given["has"] if word not in text]
    wrong += [f"says {word}" for word in given["lacks"] if word in text]
    wrong += [
        f"says {word} {text.count(word)} times, not {number}"
        for word, number in given["counts"].items()
        if text.count(word) != int(number)
    ]
    return wrong[0] if wrong else ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    given = module.params
    if module.check_mode:
        module.exit_json(changed=False)
    for left in reversed(range(given["attempts"])):
        why = asked(given)
        if not why:
            module.exit_json(changed=False)
        if left:
            time.sleep(given["delay"])
    said = f"{given['url']}: {why}"
    module.fail_json(msg=f"{given['fails']}: {said}" if given["fails"] else said)
