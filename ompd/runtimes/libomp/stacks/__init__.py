"""Threads' stacks: the regions and tasks whose code is on them, and the states of threads."""
