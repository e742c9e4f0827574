"""How many people hold an item: shares, frequent items, distribution functions and quantiles."""
