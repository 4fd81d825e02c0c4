"""Stage scheduler: operators, KAI or Run:ai, and their queues."""
