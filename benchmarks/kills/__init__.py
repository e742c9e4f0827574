"""Are processes that die at any moment forgiven? kill -9, again and again, of every party of a run under load."""
