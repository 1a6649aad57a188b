"""Installs WordNet 3.0 for NLTK: the same as `truneg wordnet`."""

from truneg_fairseq.commands import wordnet
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(wordnet)
