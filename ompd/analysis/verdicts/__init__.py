"""The meaning of the ends of waits: ``verdicts``, each with its ``chains`` of waits and its ``sentences``. ``samples``
weighs verdicts by several looks at one process.
"""
