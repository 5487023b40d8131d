"""Files that are written whole or not at all, and may be read while they grow."""
