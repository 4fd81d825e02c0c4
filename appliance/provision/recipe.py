"""The content of a disk image: a small Debian that boots on any server, with what every role needs on a host."""

from dataclasses import dataclass

from appliance.provision.sources import RELEASES, Sources

PACKAGES = (
    "ca-certificates",
    "cloud-guest-utils",
    "dbus",
    "dosfstools",
    "e2fsprogs",
    "fdisk",
    "grub-efi-amd64",
    # Shim and GRUB as signed by Debian: machines may have Secure Boot enabled.
    "grub-efi-amd64-signed",
    "initramfs-tools",
    "iproute2",
    "iputils-ping",
    "kmod",
    "linux-image-amd64",
    "mokutil",
    "nftables",
    "openssh-server",
    "pciutils",
    "procps",
    "python3",
    "python3-apt",
    "shim-signed",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
    "zstd",
)
DEBCONF = (
    # Images have no NVRAM: firmware finds the loader at the path of removable media, also after an update of GRUB.
    "grub-efi-amd64 grub2/force_efi_extra_removable boolean true\n"
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the content of an image. ``added``: packages in addition to the common ones."""

    release: str
    sources: Sources
    added: tuple[str, ...] = ()

    @property
    def codename(self) -> str:
        """Debian's name for the release."""
        return RELEASES[self.release]

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(sorted({*PACKAGES, *self.added}))
