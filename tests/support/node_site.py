"""Node site, as several test modules use it."""

SITE = """version: 1
name: acme
profile: hpc
access: {user: root}
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - name: head
    roles: [control, storage, login]
    address: 10.1.0.10
  - name: gpu-1
    roles: [gpu]
    address: 10.1.0.11
  - name: both
    roles: [control, gpu]
    address: 10.1.0.12
secrets: {munge_key: {env: A}, slurmdbd_password: {env: A}, kubernetes_encryption_key: {env: A}}
"""


CLUSTER = 'kubernetes: {version: "1.35", device_plugin: own}\n'
