"""The folder of a site whose hosts nobody asks."""

from pathlib import Path

from appliance.config.new_secrets import write_secrets


def ready_site(folder: Path, hosts: int = 4) -> Path:
    """A site of so many GPU hosts of profile hpc, with all that a look needs to begin."""
    folder.mkdir()
    write_site(folder, hosts)
    (folder / "known_hosts").write_text("")
    write_secrets(folder / "secrets")
    for name in ("id_ed25519", "id_ed25519.pub"):
        (folder / "secrets" / name).write_text("x")
        (folder / "secrets" / name).chmod(0o600)
    return folder


def write_site(folder: Path, hosts: int) -> None:
    """Its site.yml alone."""
    gpus = "".join(
        f"  - {{name: gpu-{n}, roles: [gpu], address: 10.0.0.1{n}}}\n" for n in range(1, hosts + 1)
    )
    (folder / "site.yml").write_text(
        "version: 1\nname: mysite\nprofile: hpc\n"
        "access: {private_key: secrets/id_ed25519, known_hosts: known_hosts}\n"
        "networks: {management: {cidr: 10.0.0.0/24}}\nhosts:\n"
        f"  - {{name: head, roles: [control, storage, login], address: 10.0.0.10}}\n{gpus}"
        "secrets:\n  munge_key: {file: secrets/munge_key}\n"
        "  slurmdbd_password: {file: secrets/slurmdbd_password}\n"
    )
