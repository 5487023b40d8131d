"""Rules that decide a label for each public example from the votes of the silos."""
