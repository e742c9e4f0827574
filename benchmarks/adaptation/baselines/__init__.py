"""What the paper compares with, each in a file of its own, none of it private but the minibatch SGD."""
