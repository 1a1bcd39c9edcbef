"""Files made to harm the program that reads them: one generator for each way that a format offers.

:mod:`tests.crafted.cases` has the registry and the limits of a case. :mod:`tests.crafted.server` runs the command on
cases, each time in a new process with hard limits. ``python -m tests.crafted`` lists, writes and runs single cases.
"""
