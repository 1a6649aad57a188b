"""Pages and charts that explain themselves: one HTML file each, without network. Imports neither fairseq nor torch."""
