"""A daemon's own parser tries its configuration before the old one is replaced."""

from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the role's own variables

from appliance.config.data import root

PARSERS = {
    ("slurm", "/etc/slurm/slurm.conf"): "scontrol",
    ("base", "{{ __base_chrony_file }}"): "chronyd",
    ("base", "{{ __base_sshd_file }}"): "sshd",
    ("base", "{{ __base_firewall_file }}"): "nft",
    ("base", "/etc/sudoers.d/appliance"): "visudo",
    ("base", "{{ __base_log_file }}"): "rsyslogd",
    ("observe", "{{ __observe_config_file }}"): "promtool",
}


def _files(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, dict):
        own = [found] if "path" in found else []
        return own + [f for value in found.values() for f in _files(value)]
    return [f for one in found for f in _files(one)] if isinstance(found, list) else []


@pytest.mark.parametrize(("place", "parser"), PARSERS.items())
def test_a_configuration_is_tried_by_who_reads_it(place: tuple[str, str], parser: str) -> None:
    role, path = place
    known = yaml.safe_load((root() / f"roles/{role}/vars/main.yml").read_text())
    (wanted,) = [f for f in _files(known) if f["path"] == path]
    assert parser in wanted["validate"]
