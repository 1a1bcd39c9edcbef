"""What all queries share.

``gathering`` collects facts that may fail one by one; ``answers`` begins and ends a query; ``damage`` is what changes
where the target has lost something. ``matching`` says which threads are OpenMP's, ``membership`` what they are in
their teams, ``ancestry`` in the teams around these, ``signals`` which signals they took; ``trees`` orders rows. Only
queries come in.
"""
