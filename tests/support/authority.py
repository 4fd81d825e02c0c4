"""An authority in memory, as a cluster's control plane has one."""

from datetime import UTC, datetime, timedelta

from cryptography import x509  # noqa: TID251 - the authority is not the program's
from cryptography.hazmat.primitives import hashes, serialization  # noqa: TID251
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: TID251
from cryptography.x509.oid import NameOID  # noqa: TID251


class Authority:
    """Signs requests; ``serial`` is its own certificate's number."""

    def __init__(self, serial: int | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        self.pem = self._signed(self._name, self._key.public_key(), 3650, serial)

    def sign(self, request: str, days: int) -> str:
        """The certificate for a request, in PEM."""
        found = x509.load_pem_x509_csr(request.encode())
        key = found.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return self._signed(found.subject, key, days)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        days: int,
        serial: int | None = None,
    ) -> str:
        now = datetime.now(UTC)
        number = x509.random_serial_number() if serial is None else serial
        builder = x509.CertificateBuilder(serial_number=number).public_key(key)
        builder = builder.subject_name(subject).issuer_name(self._name)
        builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=days))
        made = builder.sign(self._key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM).decode()

    @staticmethod
    def names(certificate: str) -> set[str]:
        """The subject's words."""
        found = x509.load_pem_x509_certificate(certificate.encode())
        return {str(part.value) for part in found.subject}
