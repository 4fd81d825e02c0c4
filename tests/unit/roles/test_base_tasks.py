"""Role base: what a run that failed or was cut off leaves is made good by the next."""

from pathlib import Path

import yaml  # noqa: TID251 - reads the role's own files

from appliance.probe.in_force import NIST, WEAK

ROLE = Path(__file__).parents[3] / "roles/base"


def test_systemd_reads_limits_that_an_earlier_run_wrote() -> None:
    reload, units, live = yaml.safe_load((ROLE / "tasks/service.yml").read_text("utf-8"))
    assert reload["ansible.builtin.command"]["argv"] == ["systemctl", "daemon-reload"]
    assert reload["when"] == "not base_container and not ansible_check_mode"
    assert "appliance.host.units" in units
    assert "when" not in live, "what is in force may differ though no file and no unit does"
    # A handler would run only where this very run wrote the file, and came through.
    tasks = [
        task
        for file in (ROLE / "tasks").glob("*.yml")
        for task in yaml.safe_load(file.read_text("utf-8"))
    ]
    assert not [task["name"] for task in tasks if "notify" in task]


def test_what_sshd_is_to_leave_out_is_what_the_probe_calls_weak() -> None:
    given = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    left_out = {keyword.lower(): names for keyword, names in given["__base_sshd_weak"].items()}
    by_kind = left_out.pop("hostkeyalgorithms")
    assert {keyword: tuple(names) for keyword, names in left_out.items()} == {
        keyword: names for keyword, names in WEAK.items() if keyword != "hostkeyalgorithms"
    }
    assert all(f"'{name}'" in by_kind for name in (*WEAK["hostkeyalgorithms"], *NIST))
    wanted = {name for name in given["__base_sshd_plain"] if name.startswith("weak ")}
    assert wanted == {f"weak {keyword}" for keyword in WEAK}


def test_kernel_parameters_are_read_after_those_of_distributions() -> None:
    """Debian 12's procps sets fs.protected_fifos in 99-protect-links.conf; /etc/sysctl.conf is 99-sysctl.conf."""
    given = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    ours = Path(given["__base_sysctl_file"])
    assert ours.parent == Path("/etc/sysctl.d")
    assert ours.name > "99-sysctl.conf" > "99-protect-links.conf"
