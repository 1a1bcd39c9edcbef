"""LLVM's runtime and Intel's.

``plugin`` has the runtime, which finds and keeps its threads, ``teams`` and tasks. ``handles`` answer by ``stacks`` and
``waits``. ``layout`` has the places of members in structures.
"""
