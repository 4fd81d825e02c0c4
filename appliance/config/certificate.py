"""Certificates in PEM, validated the way TLS libraries load them: all of them, or none."""

WHOLE = "paste the CA's complete PEM file; check it with: openssl x509 -noout -in FILE"


def complaint(text: str) -> str:
    """Why a program would reject ``text`` as its CA certificates; empty if it accepts it.

    Text around the certificates may be in any language.
    """
    # Imported here: most sites have no certificates.
    import ssl

    plain = text.encode("ascii", "replace").decode("ascii")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=plain)
    except (ssl.SSLError, ValueError):
        return "is truncated or damaged"
    return ""
