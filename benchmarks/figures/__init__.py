"""The paper's figures: each a grid of points, repeated, resumed where it was cut off, and drawn.

``python -m benchmarks.figures 2`` does Figure 2. One file a figure; docs/figures.md says what they show.
"""
