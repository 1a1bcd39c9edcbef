"""What follows from records: the wait-for graph, who of it can ever go on, and the reasons of a hang.

Pure functions: nothing here reads a target, and only ``model`` is imported. ``graph`` has nodes, needs and their
release by counters; ``moment`` is what one look at a program gives; ``waits`` makes the graph of a moment; ``roots``
follows waits to where they end; ``verdicts`` says what that means; ``answers`` does all of it. ``questions/why``
collects the records, and adds stacks and variables.
"""
