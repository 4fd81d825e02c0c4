#!/usr/bin/python
"""Brings one Helm release to a pinned chart version and values; runs where the cluster's kubeconfig is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: helm_release
short_description: A Helm release at a pinned version
description:
  - Compares the installed release (state, chart version, values, objects that are gone) and does nothing where all is as asked.
  - An upgrade that fails is rolled back, a first installation that fails is taken away; either is an error with Helm's reason.
  - A release that a killed run left pending is recovered. While the program of such a run still works, it is waited for.
  - What comes from an offline source is compared with the digest beside it before use; where a digest is pinned, what is fetched too.
  - C(state=absent) takes a release away, unless people still have something that goes with it.
  - In check mode a host without the cluster's kubeconfig has no release.
  - No value is ever printed, given on a command line, or written to a file.
options:
  name: {description: Release., type: str, required: true}
  namespace: {description: Namespace; made where it is missing., type: str, required: true}
  chart: {description: Chart as Helm names it; its last part names the archive in an offline source., type: str, required: true}
  version: {description: Exact version of the chart., type: str, required: true}
  repository: {description: "Chart repository; not asked where there is a source, empty for a chart that names its registry.", type: str, default: ""}
  values: {description: What differs from the chart's own values., type: dict, default: {}}
  source:
    description: Folder with C(bin/helm) and C(charts/CHART-VERSION.tgz), each with its C(.sha256); empty takes the program
      that role kubernetes has brought, and the chart from its registry.
    type: str
    default: ""
  sha256: {description: Digest the chart's archive must have; empty for any., type: str, default: ""}
  state: {description: Whether it shall be there., type: str, choices: [present, absent], default: present}
  holders: {description: Kinds of resources that must be gone before it is taken away., type: list, elements: str, default: []}
  driver: {description: Maker of volumes that must be gone before it is taken away., type: str, default: ""}
  marked:
    description: Label that its namespace must have for C(state=absent); a release elsewhere stays. Empty for any namespace.
    type: str
    default: ""
  kubeconfig: {description: Of an administrator., type: path, default: /etc/kubernetes/admin.conf}
  timeout: {description: Seconds its objects may take to be ready., type: int, default: 600}
  rolls_back:
    description: Go back if its objects do not get ready; else leave the failed revision, and name the causes from its pods and claims.
    type: bool
    default: true
  jobs: {description: Jobs of its hooks that are deleted before each attempt., type: list, elements: str, default: []}
  login: {description: User and password of the repository; Helm forgets them afterwards., type: list, elements: str, default: []}
  waits: {description: Wait until its objects are ready and go back where they do not get ready; else install it and leave., type: bool, default: true}
"""

EXAMPLES = r"""
- name: Service | Install a chart
  appliance.host.helm_release:
    name: kai-scheduler
    namespace: kai-scheduler
    chart: oci://registry.example.com/kai-scheduler
    version: v0.17.0
    values: {global: {gpuSharing: true}}
"""

RETURN = r"""
differences: {description: What was not as asked., type: list, returned: always}
revision: {description: Helm's number of the release now., type: int, returned: always}
resources: {description: "What is managed, as kind and name; none of it is the host's.", type: list, returned: always}
"""

from ansible_collections.appliance.host.plugins.module_utils.resources.helm_release import main

if __name__ == "__main__":
    main()
