"""Results of the target's routines, decoded or emulated here without running anything in the target.

The process calls routines through ``routines``; ``emulate`` imports unicorn at the first call.
"""
