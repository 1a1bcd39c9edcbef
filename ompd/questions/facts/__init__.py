"""The parts that all queries share. Only queries import them.

``answers`` begins and ends a query, and orders its rows. ``gathering`` collects facts that may fail one by one.
``damage`` decides about targets that have lost something. ``openmp_threads`` finds the OpenMP threads and their places
in their teams, and ``signals`` the signals that threads took.
"""
