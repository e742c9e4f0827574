"""``tandem ui``: a local web page about runs. It shows what run folders and a referee say, and holds no privacy."""
