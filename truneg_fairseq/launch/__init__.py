"""A training or another piece of work runs somewhere, is killed, and goes on."""
