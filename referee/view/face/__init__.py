"""One reading of a run and one way to draw it: what the report, ``tandem ui`` and notebooks all show."""
