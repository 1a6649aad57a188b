"""The same as `truneg data wordpiece`."""

from truneg_fairseq.commands.data import wordpiece
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(wordpiece)
