"""Conclusions from records: the wait-for graph, the nodes that can never go on, and the reasons of a hang.

These are pure functions. They read no target, and import only ``model``. ``moment`` has the records of one look at a
program. ``waits`` makes a graph from the records, and ``graph`` solves it. ``roots`` follows waits to their ends, and
``verdicts`` explains the ends. ``answers`` combines all of these. ``questions/why`` collects the records, and adds
stacks and variables.
"""
