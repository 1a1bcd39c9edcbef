"""``triage``: any number of cores and processes, grouped by their faults.

``run`` makes a triage. ``targets`` lists the targets. ``engine`` distributes them to workers through Python's
``Executor`` protocol, and ``clusters`` does so for Dask and mpi4py. A worker calls ``work``, which runs ``inspect`` in
a child with limits. The result of ``inspect`` is small and names the MPI rank (``ranks``). ``results`` keeps results in
a file. ``normal`` decides which stacks are the same, ``groups`` and ``tree`` merge results, ``across`` joins the ranks
of a job, and ``baseline`` reads an earlier triage.
"""
