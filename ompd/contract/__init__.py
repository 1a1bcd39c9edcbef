"""The border between the two halves: what a plugin may import, and what it provides. No input or output."""
