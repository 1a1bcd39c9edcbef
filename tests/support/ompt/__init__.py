"""Numbers of OMPT, the interface for tools inside of the process, in each of its generations.

OpenMP 5 gave most numbers of the report of 2015 away anew, so each generation has its own tables: ``openmp_5``,
``report_2015``. What a stopped program shows of them, states and flags of frames, is in :mod:`ompd.contract.ompt`.
"""
