"""Messages between coordinator and silos, to the byte."""
