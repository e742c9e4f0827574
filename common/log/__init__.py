"""One append-only log: its entries, its signed head beside it, and the witnesses that hold its heads."""
