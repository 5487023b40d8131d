"""Learners: what a silo trains. Any scikit-learn classifier is one."""
