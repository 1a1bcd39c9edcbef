"""``why``: why threads do not go on. ``analysis`` draws the conclusions from the records that are collected here.

``query`` answers the command, and ``looks`` takes earlier looks at a live process. ``collect`` collects the records of
one stop. ``system`` adds waits outside of OpenMP, ``held`` what threads hold though no runtime records it, and
``interventions`` what may end waits from elsewhere. ``branches`` finds why threads did not come to a barrier.
"""

from __future__ import annotations

from ompd.questions.why.collect import collect as collect
from ompd.questions.why.looks import look_before as look_before
from ompd.questions.why.query import ask as ask
