"""Each query's rows as lines of cells: one file for each command, which sees only records. ``terminal`` prints them."""
