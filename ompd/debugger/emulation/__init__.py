"""What routines of the target would return, without running them there: decoded, or emulated."""
