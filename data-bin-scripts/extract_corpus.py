"""The same as `truneg data extract-corpus`."""

from truneg_fairseq.commands.data import extract_corpus
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(extract_corpus)
