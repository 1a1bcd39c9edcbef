"""ELF files: headers, symbol tables, dynamic linking and compressed sections."""
