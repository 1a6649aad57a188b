"""The same as `truneg data train-wordpiece`."""

from truneg_fairseq.commands.data import train_wordpiece
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(train_wordpiece)
