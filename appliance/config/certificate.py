"""Certificates in PEM, as those who are given them read them: all of them, or none."""

WHOLE = (
    "paste the file of the authority's certificates whole: openssl x509 -noout -in FILE reads it"
)


def complaint(text: str) -> str:
    """Why a program that is given ``text`` as its authorities refuses it; empty where it takes it.

    What stands around the certificates may be in any language.
    """
    # Read for this alone: most sites have no certificates.
    import ssl

    plain = text.encode("ascii", "replace").decode("ascii")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=plain)
    except (ssl.SSLError, ValueError):
        return "is cut off or damaged"
    return ""
