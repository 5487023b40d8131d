"""Files that are written whole or not at all, and read while somebody adds to them."""
