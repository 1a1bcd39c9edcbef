"""Stacks: by unwind data, and how they may go on without."""
