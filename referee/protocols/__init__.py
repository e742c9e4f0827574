"""Scripts of protocols: generators that read like the paper's algorithms and do no I/O, each with its ablations."""
