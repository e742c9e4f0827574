"""Fitted scikit-learn classifiers, written down as data: trees as flat arrays, everything else as a small graph."""
