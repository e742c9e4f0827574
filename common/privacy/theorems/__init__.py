"""One theorem a file: what a release costs, with its proof or its source."""
