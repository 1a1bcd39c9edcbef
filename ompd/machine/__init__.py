"""Examines this machine and the installation for `ompd doctor`: tracing, core files, Python packages.

No target is needed, and nothing is changed. `tracing` tries to trace a child that it forks. Each module adds rows to a
`Report`. Folders are parameters, so that tests can use other folders.
"""
