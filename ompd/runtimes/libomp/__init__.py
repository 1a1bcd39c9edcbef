"""LLVM's runtime and Intel's. ``plugin`` puts together what the rooms have.

Imports go one way: ``layout`` (where members of structures are), ``teams`` (threads, teams and tasks), ``stacks`` (what
stacks tell), ``waits`` (barriers, locks, queues); beside these ``icvs`` and ``threadprivate``.
"""
