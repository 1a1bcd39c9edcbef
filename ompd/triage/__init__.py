"""``triage``: any number of cores and processes, grouped by what is wrong with them.

``targets`` finds out what is to be inspected. ``inspect`` makes a small result of one target, with its ``ranks``;
``work`` does so in a limited child of a worker, and ``engine`` has workers do it, by Python's ``Executor`` protocol.
``results`` keeps what has been done in a file. ``normal`` says which stacks are the same, ``groups`` and ``tree`` put
results together, ``across`` joins the ranks of a job, ``baseline`` compares with earlier ones. ``clusters`` has the
workers of Dask and mpi4py. Whoever wants a triage comes in by ``run``.
"""
