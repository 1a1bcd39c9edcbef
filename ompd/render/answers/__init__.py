"""Each query's rows as lines of cells: one file for each command, which sees only records. ``libraries`` has the
commands that are about libraries. ``terminal`` prints the lines.
"""
