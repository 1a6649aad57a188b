"""The same as `truneg data download-corpus`."""

from truneg_fairseq.commands.data import download_corpus
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(download_corpus)
