"""Mechanisms that choose: among hypotheses, among runs, among parities."""
