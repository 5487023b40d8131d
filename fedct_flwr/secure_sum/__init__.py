"""Secure sums: silos' vectors are added, and no party reads a summand."""
