"""Attacks on what a run lets travel: how well they tell members from non-members, and what that proves of epsilon."""
