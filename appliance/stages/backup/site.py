"""The site's section ``backup``: where control hosts save their data, and for whom it is encrypted."""

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import ACCOUNT_NAME, PORT, Duration, PublicKey, minutes

SERVER = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
FOLDER = r"(/[A-Za-z0-9_][A-Za-z0-9._-]*)+"
TARGET = rf"^(ssh://{ACCOUNT_NAME[1:-1]}@{SERVER}(:{PORT})?)?{FOLDER}$"
HOST_KEY = r"^(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)|ssh-rsa) [A-Za-z0-9+/]{40,1000}={0,2}$"


class BackupOptions(Model):
    """Backups of Slurm's accounting and state, etcd's snapshots and the site's folder."""

    target: str = Field(
        pattern=TARGET,
        max_length=500,
        description="ssh://USER@HOST[:PORT]/PATH, or the mount point of a network file system; not on the disk that is saved",
    )
    host_key: str | None = Field(
        default=None,
        pattern=HOST_KEY,
        description="Public SSH key of the target's server; required with ssh://",
    )
    recipient: PublicKey = Field(
        description="Public key of age for which backups are encrypted; keep its private part off the site",
    )
    every: Duration = Field(default="15m", description="Time between two backups of a host")
    keep: Duration = Field(
        default="14d", description="How long backups stay; of those older than a day, one a day"
    )

    @property
    def minutes(self) -> int:
        """Minutes between two backups."""
        return minutes(self.every)

    @property
    def days(self) -> int:
        """Days that backups stay."""
        return minutes(self.keep) // 1440


WORDS = {
    TARGET: (
        "a target of backups",
        "such as ssh://backup@192.0.2.7/srv/backup, or a mount point such as /mnt/backup; S3 is unsupported",
    ),
    HOST_KEY: (
        "a public SSH host key",
        "type and key of one line of /etc/ssh/ssh_host_ed25519_key.pub there",
    ),
}
"""For each pattern, the kind of text and an example."""
