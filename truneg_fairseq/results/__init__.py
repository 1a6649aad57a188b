"""Result files and their comparison: statistics, tables, pictures. Imports neither fairseq nor torch."""
