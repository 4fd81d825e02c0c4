#!/usr/bin/python
"""Has sshd ask Slurm whether a job of whoever logs in runs on this host, in a way that locks nobody out for good."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_for_jobs
short_description: A login by ssh needs a job, but for those who run the host
description:
  - Puts two blocks into sshd's file of PAM, in the place of the lines that include common-account and common-session.
  - Whoever is neither the system's, O(account), nor in one of O(groups) is refused by pam_slurm_adopt without a job of theirs on
    this host; with one, the session is made part of the job, and pam_systemd does not take it out again.
  - All else of the file is its package's. Where somebody changed it after the first time, what was there at the first time comes back.
  - A file that was changed is put back by the host itself after O(undo_after) seconds, unless O(state=kept) came before that, as it
    should once a new login has succeeded. O(state=back) puts it back at once.
options:
  state:
    description: V(present) and V(absent) write the file; V(kept) ends the wait, V(back) what was written.
    type: str
    choices: [present, absent, kept, back]
    default: present
  account: {description: The account deployments log in with., type: str, default: root}
  groups: {description: Groups whose members need no job., type: list, elements: str, default: []}
  says: {description: What is said to whom is refused; %h is the host., type: str, default: ""}
  umask: {description: Whether sessions of jobs have pam_umask., type: bool, default: false}
  undo_after: {description: Seconds., type: int, default: 300}
  file: {description: sshd's file of PAM., type: path, default: /etc/pam.d/sshd}
  note: {description: Where what the file was at first is kept., type: path, default: /var/lib/appliance/pam.d-sshd}
"""

EXAMPLES = r"""
- name: Logins | Have sshd ask for a job
  appliance.host.ssh_for_jobs:
    groups: [admins]
  register: written
"""

RETURN = r"""
unproved: {description: Whether the host waits for O(state=kept)., type: bool, returned: always}
resources: {description: "What is managed, as kind, name and what is wanted.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.ssh_for_jobs import main

if __name__ == "__main__":
    main()
