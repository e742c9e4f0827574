"""Simulated distributions of people: record i is a function of (seed, i) alone. One class a file, registered."""

from __future__ import annotations
