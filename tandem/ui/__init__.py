"""``tandem ui``: a local web page about runs. It shows data of run folders and a referee, and enforces no privacy."""
