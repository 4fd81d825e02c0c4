"""How a server of language models answers: time to the first token, time per token, throughput by request rate."""
