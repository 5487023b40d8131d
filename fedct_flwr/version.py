"""The version of this package, also where the rest of it is not installed, as in the image of a SuperNode."""

__version__ = "0.1.0"
