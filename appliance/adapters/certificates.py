"""The adapter for X.509: a new key pair, its certificate request and the signed certificate, a server's certificate."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from itertools import pairwise

from cryptography import x509  # noqa: TID251 - the door
from cryptography.exceptions import (  # noqa: TID251 - the door
    InvalidSignature,
    UnsupportedAlgorithm,
)
from cryptography.hazmat.primitives import hashes, serialization  # noqa: TID251 - the door
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: TID251 - the door
from cryptography.utils import CryptographyDeprecationWarning  # noqa: TID251 - the door
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: TID251 - the door

from appliance.errors import ApplianceError


@dataclass(frozen=True)
class Signed:
    """The CA's certificates and the new one, in PEM, and when the latter expires."""

    authority: str
    certificate: str
    until: datetime


@dataclass(frozen=True)
class KeyPair:
    """A new private key (NIST P-256); only the request leaves this machine."""

    key: ec.EllipticCurvePrivateKey

    @classmethod
    def fresh(cls) -> "KeyPair":
        """A different one each time."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @property
    def pem(self) -> str:
        """The private key, unencrypted."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()

    def for_server(self, addresses: Sequence[IPv4Address], days: int) -> str:
        """A self-signed certificate in PEM for a server at these addresses."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(addresses[0]))])
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(one) for one in addresses])
        made = x509.CertificateBuilder().subject_name(name).issuer_name(name)
        made = made.public_key(self.key.public_key()).serial_number(x509.random_serial_number())
        # Clocks of BMCs are often days off.
        made = made.not_valid_before(now - timedelta(days=days))
        made = made.not_valid_after(now + timedelta(days=days))
        made = made.add_extension(names, critical=False)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        signed = made.sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def request(self, user: str, group: str = "") -> str:
        """A request in PEM for a client certificate; without groups, of a user only."""
        groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
        subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = x509.CertificateSigningRequestBuilder().subject_name(subject)
        made = made.add_extension(usage, critical=False)
        signed = made.sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def signed(self, answer: str) -> Signed:
        """The certificates of an answer, the new one last. Raises ApplianceError if it is not for this key."""
        try:
            with warnings.catch_warnings():
                # kubeadm 1.20 gives its CA the serial number 0, which RFC 5280 does not allow.
                warnings.simplefilter("ignore", CryptographyDeprecationWarning)
                *authority, own = x509.load_pem_x509_certificates(answer.encode())
        except ValueError:
            raise ApplianceError("no certificate was returned") from None
        if not authority or own.public_key() != self.key.public_key():
            raise ApplianceError("the returned certificate is for another key")
        return Signed("".join(map(_pem, authority)), _pem(own), own.not_valid_after_utc)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True)
class Chain:
    """A server's certificate and those that sign it. ``names``: DNS names of the first; ``begins``, ``ends``: when it is valid.

    ``broken``: number of the first certificate that the next one does not sign, 0 if there is none. ``ends_in_itself``: whether
    the last one signs itself, as an authority of one's own does.
    """

    names: tuple[str, ...]
    begins: datetime
    ends: datetime
    broken: int
    ends_in_itself: bool
    certificates: tuple[x509.Certificate, ...]

    def is_signed_by(self, authorities: str) -> bool:
        """Whether one of these certificates signs the last one, or is it. Raises ValueError without a certificate."""
        last = self.certificates[-1]
        known = x509.load_pem_x509_certificates(authorities.encode())
        return any(last == own or _signs(own, last) for own in known)

    def has_key(self, pem: str) -> bool:
        """Whether this is the private key of the first. Raises ValueError for other text."""
        try:
            key = serialization.load_pem_private_key(pem.encode(), None)
        except (TypeError, UnsupportedAlgorithm):
            raise ValueError("an encrypted or unknown key") from None
        return key.public_key() == self.certificates[0].public_key()


def chain(text: str) -> Chain:
    """The certificates of a file in PEM, the server's first. Raises ValueError without one."""
    found = tuple(x509.load_pem_x509_certificates(text.encode()))
    first, last = found[0], found[-1]
    try:
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = tuple(names.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        known = ()
    pairs = enumerate(pairwise(found), 1)
    broken = next((number for number, (own, above) in pairs if not _signs(above, own)), 0)
    begins, ends = first.not_valid_before_utc, first.not_valid_after_utc
    return Chain(known, begins, ends, broken, _signs(last, last), found)


def _signs(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
