"""What `ompd doctor` examines of this machine and of the installation: tracing, core files, packages of Python.

No program has any part in it, and nothing is changed. What is tried is tried on a child of its own (`tracing`). Each
module adds rows to a `Report`; folders are parameters, so that tests can bring their own.
"""
