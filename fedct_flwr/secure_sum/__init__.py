"""Secure sums: vectors of silos added so that nobody opens a summand."""
