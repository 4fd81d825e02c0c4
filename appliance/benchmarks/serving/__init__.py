"""Speed of a language model server: time to the first token, time per token, throughput by request rate."""
