"""What planning knows of each learner: what it costs, how much is enough. One file a learner."""
