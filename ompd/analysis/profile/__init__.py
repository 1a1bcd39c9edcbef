"""Where the time of a team goes: ``seen`` is what a look sees, ``slots`` divides moments among activities, ``regions``
makes records of them, with intervals by ``estimates``, and ``causes`` finds the causes of lost time.
"""
