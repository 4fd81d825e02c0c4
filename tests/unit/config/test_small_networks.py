"""Networks of one or two addresses, at either end of the address space, are judged and not crashed on."""

from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site


@pytest.mark.parametrize(
    ("cidr", "remedy"),
    [
        ("0.0.0.0/32", "use an address from 0.0.0.0 to 0.0.0.0"),
        ("255.255.255.255/32", "use an address from 255.255.255.255 to 255.255.255.255"),
        ("0.0.0.0/31", "use an address from 0.0.0.0 to 0.0.0.1"),
        ("10.0.0.0/24", "use an address from 10.0.0.1 to 10.0.0.254"),
    ],
)
def test_address_outside_is_told_which_would_fit(tmp_path: Path, cidr: str, remedy: str) -> None:
    (tmp_path / "site.yml").write_text(
        "version: 1\nname: acme\nprofile: hpc\n"
        f"networks: {{management: {{cidr: {cidr}}}}}\n"
        "hosts:\n  - {name: head, roles: [control], address: 10.1.0.1}\n"
    )
    with pytest.raises(InvalidConfig) as caught:
        load_site(tmp_path)
    assert remedy in {f.remedy for f in caught.value.findings}
