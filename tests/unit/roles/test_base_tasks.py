"""Role base: what a run that failed or was cut off leaves is made good by the next."""

from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - reads the role's own files

from appliance.probe.in_force import NIST, WEAK

CHANGING = {"accounts", "files", "units", "live"}
"""Resources that change who may log in, and how."""
ROLE = Path(__file__).parents[3] / "roles/base"


def tasks(name: str) -> list[dict[str, Any]]:
    """Tasks of one of the role's files."""
    found = yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text("utf-8"))
    assert isinstance(found, list)
    return found


def test_systemd_reads_limits_that_an_earlier_run_wrote() -> None:
    apply, _ = tasks("main")
    entries = apply["appliance.host.apply"]["resources"]
    reload, units, tune, live = [e for e in entries if e["name"].startswith("service | ")]
    assert reload["command"]["argv"] == ["systemctl", "daemon-reload"]
    assert reload["when"] == "not base_container"
    assert "units" in units
    assert tune["command"]["argv"] == ["{{ __base_tuning_program }}", "set"]
    assert "when" not in live, "what is in force may differ though no file and no unit does"
    # A handler would run only where this very run wrote the file, and came through.
    assert not [t["name"] for f in ("main", "login") for t in tasks(f) if "notify" in t]


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


def test_a_changed_host_is_logged_in_to_again_before_the_stage_ends() -> None:
    apply, after = tasks("main")
    assert after["ansible.builtin.import_tasks"] == "login.yml"
    login, fail = tasks("login")
    assert login["vars"]["ansible_ssh_extra_args"] == "-o ControlPath=none"
    assert login["when"].endswith(f"{apply['register']} is changed")
    assert {key for e in apply["appliance.host.apply"]["resources"] for key in e} >= CHANGING
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
