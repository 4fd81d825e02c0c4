"""A site that installs Run:ai, with its certificates and secrets."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509  # noqa: TID251 - the certificates are not the program's
from cryptography.hazmat.primitives import hashes, serialization  # noqa: TID251
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: TID251
from cryptography.x509.oid import NameOID  # noqa: TID251

from tests.support.impossible_queues import BASE, furnish

DOMAIN = "runai.example.com"
PASSWORD = "Abcdefg1!"
SITE = f"""\
  kubernetes_encryption_key: {{file: secrets/munge_key}}
  ngc_api_key: {{file: secrets/ngc_api_key}}
  runai_admin_password: {{file: secrets/runai_admin_password}}
  runai_database_password: {{file: secrets/runai_database_password}}
  runai_keycloak_password: {{file: secrets/runai_keycloak_password}}
  runai_tls_key: {{file: secrets/runai_tls_key}}
  runai_inference_tls_key: {{file: secrets/runai_inference_tls_key}}
storage:
  exports: [{{path: /srv/data}}]
kubernetes:
  version: "1.35"
  device_plugin: operator
software:
  kai: "0.18"
  gpu_operator: "26.3"
workloads:
  nfs_csi: {{}}
scheduler:
  kind: runai
  runai:
    edition: entitled
    domain: {DOMAIN}
    ca: tls/ca.pem
    install:
      admin: admin@example.com
      certificate: tls/runai.pem
      storage_class: nfs
      inference:
        domain: inference.example.com
        certificate: tls/inference.pem
  projects:
    - name: vision
      queues:
        - name: build
          work: build
          time_limit: 8h
          idle_limit: 30m
"""
"""Sound, except that this release does not accept kind runai."""


@dataclass(frozen=True)
class Signer:
    """An authority, or a server: its key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        """The key, unencrypted."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()


def signed(name: str, by: Signer | None, *names: str, days: int = 30) -> Signer:
    """A certificate for these DNS names, by an authority or by itself; ``days`` below 0: it has expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = by.certificate.subject if by else subject
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=60)).not_valid_after(
        now + timedelta(days=days)
    )
    made = made.add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    if names:
        known = x509.SubjectAlternativeName([x509.DNSName(one) for one in names])
        made = made.add_extension(known, critical=False)
    return Signer(key, made.sign(by.key if by else key, hashes.SHA256()))


@dataclass(frozen=True)
class Authorities:
    """A root, an authority below it, and another root."""

    root: Signer
    middle: Signer
    other: Signer

    @classmethod
    def fresh(cls) -> "Authorities":
        """New ones."""
        root = signed("root", None)
        return cls(root, signed("middle", root), signed("other", None))

    def write(self, folder: Path, *names: str, days: int = 30) -> None:
        """``tls/runai.pem`` for these names with its key, ``tls/inference.pem`` with its own, and ``tls/ca.pem``."""
        places = folder / "tls"
        places.mkdir(exist_ok=True)
        (places / "ca.pem").write_text(self.root.pem)
        for name, covered, key in (
            ("runai", names or (DOMAIN, f"*.{DOMAIN}"), "runai_tls_key"),
            ("inference", ("*.inference.example.com",), "runai_inference_tls_key"),
        ):
            server = signed(name, self.middle, *covered, days=days if name == "runai" else 30)
            (places / f"{name}.pem").write_text(server.pem + self.middle.pem)
            private(folder / "secrets" / key, server.key_pem)


def private(file: Path, text: str) -> None:
    """A file that only its owner reads."""
    file.touch(mode=0o600)
    file.write_text(text)


def write_site(folder: Path, authorities: Authorities, text: str = SITE) -> Path:
    """The site's folder with all its files; returns its ``site.yml``."""
    furnish(folder)
    authorities.write(folder)
    private(folder / "secrets/runai_admin_password", PASSWORD)
    for name in ("ngc_api_key", "runai_database_password", "runai_keycloak_password"):
        private(folder / "secrets" / name, f"{name}-value")
    file = folder / "site.yml"
    file.write_text(BASE + text)
    return file
