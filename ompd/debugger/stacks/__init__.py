"""Native stacks: ``stacks`` for frames, ``calls`` for callers and called functions.

The process makes both, and all other code uses the process. The other files here serve these two.
"""
