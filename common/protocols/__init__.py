"""Protocols as every party knows them: section of the scenario, problem, message pattern and plan, one file each."""
