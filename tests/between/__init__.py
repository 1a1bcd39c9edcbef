"""Stop a program in each state of its thread on the way from one team to another."""
