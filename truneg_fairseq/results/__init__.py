"""Result files and their comparison: statistics, tables, pictures, pages. Imports neither fairseq nor torch."""
