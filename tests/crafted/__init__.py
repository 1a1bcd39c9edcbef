"""Files that somebody made to harm who reads them: one generator for each way that a format offers.

:mod:`tests.crafted.cases` has the registry and what a case may cost, :mod:`tests.crafted.server` runs the command on
them, each time in a new process with hard limits. ``python -m tests.crafted`` lists, writes and runs single cases.
"""
