"""The same as `truneg data train-sentencepiece`."""

from truneg_fairseq.commands.data import train_sentencepiece
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(train_sentencepiece)
