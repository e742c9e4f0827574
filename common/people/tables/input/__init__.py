"""Rows from files, frames and arrays, in pieces of bounded size."""
