"""Reports of pre-training runs: what fairseq logged, what was measured of it, one page. Imports neither fairseq nor torch."""
