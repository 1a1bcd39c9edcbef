"""The stacks of threads: the regions and tasks whose code is on them, and the threads' states."""
