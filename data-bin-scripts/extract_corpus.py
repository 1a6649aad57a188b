"""The same as `truneg data text`."""

from truneg_fairseq.commands.data import text
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(text)
