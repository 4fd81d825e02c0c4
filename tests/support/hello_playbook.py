"""The real Ansible with one task on a server of our own."""

from pathlib import Path

from appliance.adapters import leftovers
from appliance.adapters.ansible import LAST_PLAY, HostPlay, Play, play
from appliance.engine.run.playbook import plays_of
from tests.support.ssh_server import SshServer


def hello(site: Path, data: Path, server: SshServer, key: Path) -> Play:
    """A playbook of one task on the server, as host gpu-1 of a site in ``site``."""
    playbooks, tasks = data / "playbooks", data / "roles" / "hello" / "tasks"
    (playbooks / "collections").mkdir(parents=True)
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text("- name: Say\n  ansible.builtin.command: echo hello\n")
    playbook = playbooks / "hello.yml"
    playbook.write_text("- hosts: all\n  gather_facts: false\n  roles: [hello]\n")
    server.pin(site / "known_hosts")
    server.give_key(key)
    host = {
        "ansible_host": server.address,
        "ansible_port": server.port,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        LAST_PLAY: 0,
    }
    return Play(
        playbook=playbook,
        plays=plays_of(playbook),
        roles=data / "roles",
        hosts={"gpu-1": host},
        groups={},
        known_hosts=site / "known_hosts",
        private_key=key,
        mark=leftovers.mark(site / "runs" / "r1"),
    )


def played(request: Play) -> HostPlay:
    """How it ended."""
    return play(request, lambda event: None, lambda host: None, lambda: False)["gpu-1"]
