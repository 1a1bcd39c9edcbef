"""Numbers of OMPT, the interface for tools inside the process, in both generations.

OpenMP 5 gave most numbers of the report of 2015 a new meaning, so each generation has its own tables: ``openmp_5`` and
``report_2015``. States and frame flags, which a stopped program shows, are in :mod:`ompd.contract.ompt`.
"""
