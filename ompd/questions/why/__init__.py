"""``why``: the reasons why threads do not go on.

The records are collected here, and :mod:`ompd.analysis` concludes from them. ``query`` answers the command, and
``looks`` takes earlier looks at a live process. ``collect`` collects the records of one stop: ``system`` reads waits
outside of OpenMP, ``held`` finds locks that threads hold without a record of the runtime, and ``interventions`` finds
signals and other events that may end waits. ``branches`` finds why threads did not come to a barrier.
"""

from __future__ import annotations

from ompd.questions.why.collect import collect as collect
from ompd.questions.why.looks import look_before as look_before
from ompd.questions.why.query import ask as ask
