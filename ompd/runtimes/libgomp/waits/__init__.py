"""What threads and tasks wait for: the pool and the team's barriers, locks, other tasks."""
