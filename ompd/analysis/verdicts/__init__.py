"""What the ends of waits mean: ``verdicts``, each with its ``chains`` of waits and its ``sentences``; ``samples`` says
what several looks at one process add.
"""
