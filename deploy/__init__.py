"""Deployments: bring the parties together in one process, in subprocesses, or at a URL."""
