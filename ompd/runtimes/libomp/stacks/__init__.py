"""Threads' stacks: whose code is on them, of which regions and tasks, and what each thread does."""
