"""What the stacks of threads tell: whose code is on them, which regions and tasks it is of, what each thread does."""
