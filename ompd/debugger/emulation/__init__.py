"""Results of routines of the target, which are not run there: decoded, or emulated.

The process calls them by ``routines``; ``emulate`` imports unicorn at the first call.
"""
