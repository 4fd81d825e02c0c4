"""The console: a full-screen terminal application over what the verbs know. Read-only.

``sources`` calls the functions of the verbs, pages turn their results into rows, and ``app`` alone knows Textual.
"""
