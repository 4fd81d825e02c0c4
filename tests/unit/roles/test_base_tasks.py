"""Role base: what a run that failed or was cut off leaves is made good by the next."""

from pathlib import Path

import yaml  # noqa: TID251 - reads the role's own files

from appliance.probe.in_force import NIST, WEAK

CHANGING = (
    *("appliance.host.accounts", "appliance.host.files"),
    *("appliance.host.units", "appliance.host.live"),
)
"""Modules that change who may log in, and how."""
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


def test_a_changed_host_is_logged_in_to_anew_before_the_stage_ends() -> None:
    login, fail, *_ = yaml.safe_load((ROLE / "tasks/verify.yml").read_text("utf-8"))
    assert login["vars"]["ansible_ssh_extra_args"] == "-o ControlPath=none"
    changing = {
        task["register"]
        for file in ("configure", "service")
        for task in yaml.safe_load((ROLE / f"tasks/{file}.yml").read_text("utf-8"))
        if any(module in task for module in CHANGING)
    }
    asked = " ".join(login["vars"]["__base_changes"])
    assert {name for name in changing if name in asked} == changing
    assert len(changing) == len(CHANGING)
    assert "ansible.builtin.fail" in fail


def test_crontabs_are_roots_alone_where_work_must_end_with_its_job() -> None:
    files = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))["__base_shared_files"]
    found = {file["path"]: file for file in files if file["path"].endswith(".allow")}
    assert set(found) == {"/etc/cron.allow", "/etc/at.allow"}
    for file in found.values():
        # One that a site has by itself stays where users are free.
        assert (file["state"], file["ours"]) == (
            "{{ base_crontabs | ternary('absent', 'file') }}",
            True,
        )
        lines = (ROLE / "templates" / file["src"]).read_text("utf-8").splitlines()
        assert lines[0].startswith("# Managed by appliance")
        assert lines[1:] == ["root"]
