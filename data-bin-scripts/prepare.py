"""The same as `truneg data prepare`."""

from truneg_fairseq.commands.data import prepare
from truneg_fairseq.commands.main import run_as_script

if __name__ == "__main__":
    run_as_script(prepare)
