"""The rows of each query as lines of cells, from records only: one file for each command. ``libraries`` has the
commands about libraries. ``terminal`` prints the lines.
"""
