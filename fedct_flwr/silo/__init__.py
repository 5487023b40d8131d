"""One round at a silo: its site, what is trained, what is released, what is kept."""
