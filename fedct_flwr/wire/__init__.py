"""What travels between coordinator and silos, to the byte."""
