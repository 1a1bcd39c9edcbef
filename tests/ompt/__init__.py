"""OMPT's headers and tables against the documents: what the report of 2015 and OpenMP 5's header declare, as data.

``declarations`` reads C, ``report`` the LaTeX of the report, ``openmp_5`` headers of runtimes. ``rulings`` has what is
done where a document contradicts itself, ``layouts`` where members lie, and the files of assertions. What was read once
is in ``report_2015.json`` and ``openmp_5.json``, since neither document is part of this project.
"""
