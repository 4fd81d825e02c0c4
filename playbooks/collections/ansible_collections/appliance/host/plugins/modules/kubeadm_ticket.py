#!/usr/bin/python
"""What one host needs to join, for minutes; runs on a control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_ticket
short_description: What one joining host needs
description:
  - C(present) makes a credential of 15 minutes for a host that is in no cluster, or in another. For a control plane it
    is a token. Another host gets a certificate of its own node, because with a token it could become any node.
  - For a host that is in this cluster, C(present) tells whether the cluster has lost it. What a control plane of the same
    name left of itself in etcd, before its host was made anew, is removed, and so are tokens of this host that a run left
    which was cut off.
  - C(absent) deletes the token, and the certificates that were left for a control plane.
options:
  node: {description: Name of the host., type: str, required: true}
  state: {description: What to do., type: str, choices: [present, absent], default: present}
  member_of: {description: Digest of the authority the host trusts., type: str, default: ""}
  control: {description: Whether it joins as a control plane., type: bool, default: false}
  address: {description: Its address; a member of etcd that never started has no name., type: str, default: ""}
  config: {description: kubeadm's configuration here., type: path, default: ""}
  encryption_key: {description: The secret all control planes have; what they share is sealed by a key made from it., type: str, default: ""}
  token_id: {description: Public half of the token to delete., type: str, default: ""}
"""

EXAMPLES = r"""
- name: Service | Get a token that lives for minutes
  appliance.host.kubeadm_ticket:
    node: gpu-1
"""

RETURN = r"""
authority: {description: The cluster's authority in PEM., type: str, returned: when a certificate was made}
certificate: {description: Of the node in PEM., type: str, returned: when one was made}
key: {description: Its private key in PEM., type: str, returned: when a certificate was made}
token: {description: The token., type: str, returned: when one was made}
token_id: {description: Its public half., type: str, returned: when one was made}
ca_hash: {description: Digest of the public key of the cluster's CA., type: str, returned: when a token was made}
certificate_key: {description: Key of the shared certificates., type: str, returned: for a control plane}
lost: {description: "The host is in this cluster, and the cluster has no node of its name.", type: bool, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubeadm_ticket import main

if __name__ == "__main__":
    main()
