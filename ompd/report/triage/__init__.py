"""The page of ``ompd triage``: the groups, who waits for whom across ranks, a map of ranks, and the tree of stacks.

``sections`` makes what the template shows, of which ``tree``, ``ranks`` and ``jobs`` draw pictures; ``page`` puts it
together. Of an answer alone: nothing here sees a target.
"""
