"""Native stacks and the calls in them: ``stacks`` for frames, ``calls`` for who called what. The process makes both,
and others use the process; the other files of the room serve these two.
"""
