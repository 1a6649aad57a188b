"""Reports of pre-training runs: what fairseq logged and what was measured, on one page. No fairseq, no torch."""
