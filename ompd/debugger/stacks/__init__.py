"""Native stacks and the calls in them: ``stacks`` for frames, ``calls`` for who called what. Others use the process."""
