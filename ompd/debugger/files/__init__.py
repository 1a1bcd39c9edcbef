"""Files: opening cores, finding the files that targets name, debug files, debuginfod servers, and the disk cache."""
