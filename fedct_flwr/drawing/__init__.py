"""Public sets that are drawn where none exists: from a data dictionary, or from silos' histograms with noise."""
