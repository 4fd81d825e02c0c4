"""From bare metal to a trusted system: disk images, boot media, and the server that machines are installed from."""
