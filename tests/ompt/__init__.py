"""The declarations of the report of 2015 and of OpenMP 5's header, as data to check OMPT's headers and tables against.

``declarations`` reads C, ``report`` the LaTeX source of the report, ``openmp_5`` headers of runtimes. ``rulings``
decides where a document contradicts itself. ``layouts`` has the offsets of members and writes the files of assertions.
``report_2015.json`` and ``openmp_5.json`` keep the declarations, because neither document is part of this project.
"""
