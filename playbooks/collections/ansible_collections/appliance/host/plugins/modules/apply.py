#!/usr/bin/python
"""Brings a host to what a role wants of it, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apply
short_description: All resources of a role, in order, in one call
description:
  - Each entry names one resource of this collection, as O(resources) has them, with the arguments of the module of that name. They are
    applied in order; the first one that fails ends the call, and those before it stay as they are.
  - An entry's name begins with its phase, as C(install | Install the daemon). Tags as C(<role>:install), or a list in the variable
    C(<role>_phases), choose the entries of some phases.
  - A call costs the controller what one task costs, however many resources it has.
  - At most one call of a role works on a host. A call waits for an earlier one, such as one whose controller was killed.
  - A call whose controller is gone finishes its current entry, and entries that wait for a change it made. Then it ends.
  - The action plugin evaluates conditions, variables and templates. Of a role with lists by distribution it reads
    C(vars/<distribution>-<release>.yml), else C(vars/<distribution>.yml), else C(vars/<os family>.yml); where no play gathered facts, it
    asks the host for its distribution first.
options:
  refuse:
    description: Conditions under which nothing is done, each with its message. They are evaluated on the controller.
    type: list
    elements: dict
    default: []
    suboptions:
      when: {description: "A condition, or a list of them that must all hold.", type: raw, required: true}
      message: {description: What is wrong and what to do., type: str, required: true}
  resources:
    description:
      - Entries. Beside the resource's own key, an entry has C(name); C(when), a condition or a list of them; C(vars), variables of its own;
        C(loop), a list, for each item of which the entry is applied once. Its text may use C(item), and its name must;
        C(after_change), names of entries of which one must have changed something in this call; C(ignore_failure);
        C(pauses_for), a key of its answer (C(reboot)) that ends the call where it is true, for the role to go on from.
      - An argument may be a part of the answer of an earlier entry. It is then a mapping of C(answer_of), the name of that entry, and C(key).
      - C(command) and C(answer) are resources of this module alone.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Bring the daemon
  appliance.host.apply:
    refuse:
      - when: daemon_key | length == 0
        message: "daemon_key is missing: make one with openssl rand -hex 32"
    resources:
      - name: install | Install the daemon
        packages:
          present: [daemon]
      - name: configure | Write its configuration
        files:
          files:
            - path: /etc/daemon.conf
      - name: service | Run it
        units:
          units:
            - name: daemon.service
              watches: [/etc/daemon.conf]
      - name: verify | It answers
        command:
          argv: [daemonctl, ping]
          attempts: 5
        when: daemon_wait
"""

RETURN = r"""
done:
  description: By the name of each entry that ran, what its module returned.
  type: dict
  returned: always
resources: {description: "What is managed, as kind and name.", type: list, returned: always}
paused: {description: The name of the entry that the call ended at., type: str, returned: where pauses_for held}
entry: {description: The name of the entry that failed., type: str, returned: failure}
"""

from ansible_collections.appliance.host.plugins.module_utils.applying import main

if __name__ == "__main__":
    main()
