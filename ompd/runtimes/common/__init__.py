"""What the plugins of several runtimes share."""
