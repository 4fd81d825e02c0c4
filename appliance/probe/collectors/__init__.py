"""One file per area; each turns one part of a host into facts."""
