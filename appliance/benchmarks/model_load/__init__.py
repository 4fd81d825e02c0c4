"""Speed of loading a model's weights from storage into memory, by loader and concurrency."""
