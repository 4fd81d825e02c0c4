"""Management controllers: what they say of their machines, what that must be, and power."""
