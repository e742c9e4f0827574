"""Accountants: what events cost. One file each."""
