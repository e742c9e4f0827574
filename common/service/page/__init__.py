"""What local pages for a browser share: who may open one, its frame and style sheets, how it fails and is served."""
