"""A new site from CSV files: every machine and cable of the list is in it, and a bad row is named by file, line and column."""

from ipaddress import IPv4Network
from pathlib import Path

import click
import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites import csv_list
from appliance.actions.sites import init as action
from appliance.cli.main import cli
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_site
from appliance.errors import ConfigError
from appliance.models.site import Role

NETWORK = IPv4Network("10.0.0.0/24")
HOSTS = """name,roles,address,class,mac,bmc,bmc_user,rack,unit,serial
head,control storage login,10.1.0.10/24,,52-54-00-00-00-10,10.1.16.10,,R1,47,SN1
gpu-1,gpu,10.1.0.11,,5254.0000.0011,10.1.16.11,root,R1,1,SN2
gpu-2,gpu,10.1.0.12,balanced,,,,,,
"""
CABLES = "host;hca;switch;port\ngpu-1;mlx5_0;Leaf 1;7\n\ngpu-1;mlx5_1;Leaf 2;7\n"


def files(folder: Path, hosts: str = HOSTS, cables: str = CABLES) -> tuple[Path, Path]:
    of_hosts, of_cables = folder / "hosts.csv", folder / "cables.csv"
    # As a spreadsheet writes it: with a byte order mark, and line ends of Windows.
    of_hosts.write_bytes(hosts.replace("\n", "\r\n").encode("utf-8-sig"))
    of_cables.write_text(cables)
    return of_hosts, of_cables


def made(folder: Path, tables: tuple[Path, ...]) -> None:
    machines = csv_list.read(tables)
    action.init(folder / "acme", 0, "hpc", None, NETWORK, machines=machines)


def test_the_site_has_every_machine_and_cable_of_the_files(tmp_path: Path) -> None:
    made(tmp_path, files(tmp_path))
    site = load_site(tmp_path / "acme", check_ids=check_ids()).site
    head, one, two = site.hosts
    assert head.roles == (Role.CONTROL, Role.STORAGE, Role.LOGIN)
    assert (head.mac, head.rack, head.unit, head.serial) == ("52:54:00:00:00:10", "R1", 47, "SN1")
    assert (one.mac, one.hardware_class) == ("52:54:00:00:00:11", None)
    assert one.bmc
    assert (str(one.bmc.address), one.bmc.user) == ("10.1.16.11", "root")
    assert (two.hardware_class, two.bmc, two.rack) == ("balanced", None, None)
    assert str(site.networks["management"].cidr) == "10.1.0.0/24"
    wires = [(c.host, c.hca, c.switch, c.port) for c in site.fabric.cables]
    assert wires == [("gpu-1", "mlx5_0", "Leaf 1", 7), ("gpu-1", "mlx5_1", "Leaf 2", 7)]
    assert site.fabric.cabling == "listed"


def test_what_the_list_does_not_tell_is_named(tmp_path: Path) -> None:
    assert list(csv_list.read(files(tmp_path)).missing()) == [
        "no MAC address, which provision needs: gpu-2",
        "no BMC: gpu-2",
        "no rack: gpu-2",
        "no unit: gpu-2",
        "no serial number: gpu-2",
        "no fabric cable: gpu-2",
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("10.1.0.11,", "10.1.0.300,", ["hosts.csv:3 address"]),
        ("10.1.0.11,", ",", ["hosts.csv:3 address"]),
        ("5254.0000.0011", "52:54", ["hosts.csv:3 mac"]),
        ("gpu-1,gpu,", "gpu_1,gpi,", ["hosts.csv:3 name", "hosts.csv:3 roles"]),
        ("R1,1,", "R1,0,", ["hosts.csv:3 unit"]),
        ("R1,1,", "R1,one,", ["hosts.csv:3 unit"]),
        ("R1,1,", "R1,47,", ["hosts.csv:3 unit"]),
        ("R1,1,", ",1,", ["hosts.csv:3 unit"]),
        ("SN2", "SN1", ["hosts.csv:3 serial"]),
        ("10.1.16.11", "10.1.0.12", ["hosts.csv:3 bmc", "hosts.csv:4 address"]),
        ("gpu-2", "gpu-1", ["hosts.csv:4 name"]),
        ("10.1.0.12,", "10.2.0.12,", ["hosts.csv:4 address"]),
        ("10.1.0.12,", "10.2.0.12/24,", ["hosts.csv:4 address"]),
        ("10.1.0.10/24", "10.1.0.10/99", ["hosts.csv:2 address"]),
        ("balanced", "no/such.yml", ["hosts.csv:4 class"]),
        ("head,control storage login", "head,storage", ["hosts.csv:0 hosts"]),
        (",rack,", ",cabinet,", ["hosts.csv:1 cabinet"]),
        ("name,roles", "roles,roles", ["hosts.csv:1 name", "hosts.csv:1 roles"]),
        ("SN2", "SN2,more", ["hosts.csv:3 "]),
        ("SN2", '"SN2', ["hosts.csv:4 "]),
        ("R1,1,", "{{ 1 }},1,", ["hosts.csv:3 rack"]),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_by_line_and_column(old: str, new: str, found: list[str], tmp_path: Path) -> None:  # fmt: skip
    assert old in HOSTS
    with pytest.raises(InvalidConfig) as refused:
        made(tmp_path, files(tmp_path, HOSTS.replace(old, new, 1)))
    got = refused.value.findings
    places = {f"{f.file.name}:{f.line} {f.key}" for f in got}
    assert places & set(found), [str(f) for f in got]
    assert all(f.message and f.remedy for f in got)
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (";7\n\n", ";255\n\n", "cables.csv:2 port"),
        ("gpu-1;mlx5_1", "gpu-7;mlx5_1", "cables.csv:4 host"),
        ("mlx5_1", "mlx5_0", "cables.csv:4 hca"),
        ("mlx5_1", "", "cables.csv:4 hca"),
        ("Leaf 2", "{{ x }}", "cables.csv:4 switch"),
        (";switch;", ";", "cables.csv:1 switch"),
    ],
)
def test_a_bad_cable_is_named_by_line_and_column(old: str, new: str, found: str, tmp_path: Path) -> None:  # fmt: skip
    assert old in CABLES
    with pytest.raises(InvalidConfig) as refused:
        made(tmp_path, files(tmp_path, cables=CABLES.replace(old, new, 1)))
    got = {f"{f.file.name}:{f.line} {f.key}" for f in refused.value.findings}
    assert any(place.startswith(found) for place in got), got


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"name,roles,address\n"])
def test_a_file_without_hosts_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "hosts.csv"
    file.write_bytes(content)
    with pytest.raises(ConfigError):
        csv_list.read([file])
    with pytest.raises(ConfigError, match="cannot be read"):
        csv_list.read([tmp_path / "none.csv"])
    with pytest.raises(ConfigError, match="cannot be read"):
        csv_list.read([Path("/dev/zero")])


def test_the_command_says_one_line_for_each_bad_row(tmp_path: Path) -> None:
    text = HOSTS.replace("10.1.0.11,", "10.1.0.300,").replace("R1,47", "R1,x")
    of_hosts, _ = files(tmp_path, text)
    argv = ["init", str(tmp_path / "acme"), "--from-csv", str(of_hosts), "-p", "hpc"]
    with pytest.raises(InvalidConfig) as refused:
        cli.main(argv, standalone_mode=False)
    assert refused.value.exit_code == 2
    assert refused.value.message == (
        f"{of_hosts}: 2 problems, nothing was contacted\n"
        "  :2  unit     'x' is not a whole number: write digits only\n"
        '  :3  address  "10.1.0.300" is not an IPv4 address: four numbers from 0 to 255, such as 10.0.0.11'
    )
    assert not (tmp_path / "acme").exists()


def test_the_command_prints_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    of_hosts, of_cables = files(tmp_path)
    argv = ["init", str(tmp_path / "acme"), "-p", "hpc"]
    argv += ["--from-csv", str(of_hosts), "--from-csv", str(of_cables)]
    cli.main(argv, standalone_mode=False)
    said = capsys.readouterr().out
    assert (
        f"2 fabric cables, from {of_hosts}\n  no MAC address, which provision needs: gpu-2" in said
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from-csv", "a.csv", "--count", "3"], "--count and --from-csv exclude each other"),
        (["--from-csv", "a", "--from-netbox", "https://x"], "exclude each other; give one"),
        (["--count", "3", "--token", "t"], "need --from-netbox"),
    ],
)
def test_sources_exclude_each_other(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=said):
        cli.main(["init", str(tmp_path / "acme"), "-p", "hpc", *words], standalone_mode=False)
