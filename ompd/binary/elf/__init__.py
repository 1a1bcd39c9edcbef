"""ELF files: headers, symbol tables, what a loader reads, and what is packed into them."""
