"""What routines of the target would return, without running them there: decoded, or emulated.

``routines`` is the way in, for the process alone; unicorn is imported in ``emulate``, at the first call.
"""
