"""The runtime's threads, teams and tasks, by its own structures: one rung of the runtime's class in each module.

``reading`` has what a rung reads by; ``teams``, ``tasks`` and ``threads`` each add one kind of handle. What stacks and
waits tell of a handle is abstract here: ``plugin`` adds it.
"""
