"""Installs WordNet 3.0 for NLTK: the same as `truneg wordnet`."""

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.commands.training import wordnet

if __name__ == "__main__":
    run_as_script(wordnet)
