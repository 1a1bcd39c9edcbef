"""Native stacks: ``stacks`` for frames, ``calls`` for callers and called functions.

The process makes both, and other code gets them from the process. The other files here serve these two.
"""
