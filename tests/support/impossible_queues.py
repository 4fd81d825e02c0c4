"""Impossible queues, as several test modules use it."""

from pathlib import Path

from appliance.config.new_secrets import write_secrets

DATA = Path(__file__).parents[1] / "data/impossible_queues"


BASE = (DATA / "base.yml").read_text()


SOUND = """
scheduler:
  sharing: unenforced
  node_pools:
    - {name: interactive, hosts: [gpu-1], placement: spread}
  departments:
    - name: science
      shares: [{gpu: {quota: 24, limit: 24}, cpu: {quota: 200}}]
    - {name: physics, parent: science}
  projects:
    - name: lattice
      department: physics
      users: [alice]
      queues:
        - name: build
          work: build
          pool: interactive
          gpu: {quota: 4.5}
          fraction: 0.5
          time_limit: 8h
          idle_limit: 30m
        - name: train
          gpu: {quota: 16, limit: 24, weight: 2}
          cpu: {quota: 200}
          priority_class: urgent
  priorities: [{name: urgent, value: 60}]
"""


def furnish(folder: Path) -> None:
    write_secrets(folder / "secrets")
    key = folder / "secrets/id_ed25519"
    key.touch(mode=0o600)
    key.write_text("a key")
    (folder / "known_hosts").write_text("")
