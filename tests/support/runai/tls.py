"""A certificate for the stand-in, which is its own authority."""

from pathlib import Path

from appliance.adapters import process


def certificate(folder: Path, *names: str) -> Path:
    """``cert.pem`` and ``key.pem`` for loopback and these names."""
    others = "".join(f",DNS:{name}" for name in names)
    process.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-subj", "/CN=stand-in", "-addext", f"subjectAltName=IP:127.0.0.1{others}"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ]
    )
    return folder / "cert.pem"
