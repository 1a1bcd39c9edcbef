"""Names and numbers of OMPT, the interface for tools inside of the process, in each of its generations.

OpenMP 5 gave most numbers of the report of 2015 away anew, so each generation has its own tables: ``openmp_5``,
``report_2015``. What a stopped program shows is here: the states of both (``states``) and OpenMP 5's flags of frames
(``frames``); commands do not import the rest. ``runtime_stub/include`` has the same for C. ``docs/dev/ompt.md`` says
what holds where the documents contradict themselves.
"""

from ompd.contract.ompt.frames import FrameFlag
from ompd.contract.ompt.states import FROM_2015, State, State2015, is_wait, state_name

__all__ = ["FROM_2015", "FrameFlag", "State", "State2015", "is_wait", "state_name"]
