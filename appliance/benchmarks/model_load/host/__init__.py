"""What runs on a host: makes a model file, reads it by every loader, and says how long each took. Knows only itself."""
