"""Two ideas of one's own about other words: a detector, and soft targets.

truneg train DATA-BIN --user-dir user_dir_examples/ideas --criterion masked_lm_true_neg --hc-weight 1 --hc-detector same-stem ...
truneg experiment FILE.yaml --user-dir user_dir_examples/ideas        # an arm's options: soft-targets: answers=0.1
"""  # noqa: E501

from . import answers, same_stem  # noqa: F401
