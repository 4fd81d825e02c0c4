"""The program on a host: creates a model file, reads it with every loader, and reports the times. It imports only itself."""
