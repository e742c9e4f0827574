"""Where people's records come from: tables and distributions."""

from __future__ import annotations
