"""Stage ``runai``: NVIDIA Run:ai's control plane and cluster engine, from their documentation; no release of it was run here."""
