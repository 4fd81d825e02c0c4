"""Stage storage: NFS server, mounts, local scratch."""
