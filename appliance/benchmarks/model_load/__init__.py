"""How fast a model's weights come from storage into memory, by loader and concurrency."""
