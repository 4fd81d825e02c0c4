#!/usr/bin/python
"""Whether this host is in a cluster, and bringing it in."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_member
short_description: This host's membership of a cluster
description:
  - C(seen) tells the digest of the authority of the cluster this host is in, and which of the control planes answers.
  - C(joined) joins with a token or a certificate where one is given; without, the host is in already. What an earlier cluster, or a join
    that was cut off, left on the host is removed before. The token stands in memory only.
options:
  state: {description: What to do., type: str, choices: [seen, joined], required: true}
  endpoint: {description: Address and port of the API., type: str, default: ""}
  api: {description: Version of kubeadm's configuration API., type: str, default: v1beta4}
  registration: {description: nodeRegistration., type: dict, default: {}}
  authority: {description: "The cluster's authority in PEM, for a certificate.", type: str, default: ""}
  certificate: {description: Certificate of this node in PEM; empty for a control plane and where the host is in the cluster., type: str, default: ""}
  key: {description: Private key of the certificate., type: str, default: ""}
  token: {description: Bootstrap token of a control plane; empty where the host is in the cluster., type: str, default: ""}
  ca_hash: {description: Digest of the cluster's authority., type: str, default: ""}
  certificate_key: {description: Key of the certificates control planes share., type: str, default: ""}
  control: {description: Whether the host is one of the control planes., type: bool, default: false}
  control_address: {description: Address of this control plane; empty for a host without., type: str, default: ""}
  desks: {description: Addresses of the other control planes., type: list, elements: str, default: []}
  wait: {description: Seconds one of them may take to answer; 0 asks once and takes none for an answer., type: int, default: 0}
  skip: {description: Phases of join that are left out., type: list, elements: str, default: []}
"""

EXAMPLES = r"""
- name: Service | See whether this host is in the cluster
  appliance.host.kubeadm_member:
    state: seen
"""

RETURN = r"""
ca_hash: {description: "Digest of the authority this host trusts, empty where it is in no cluster.", type: str, returned: seen}
desk: {description: The first of the other control planes whose API is ready; empty for none., type: str, returned: seen}
super_admin: {description: Whether kubeadm init left super-admin.conf here; a host that joined has none., type: bool, returned: seen}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.kubeadm_member import main

if __name__ == "__main__":
    main()
