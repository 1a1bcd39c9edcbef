"""Barriers, locks and dependences for which threads and tasks wait, and the queues of tasks."""
