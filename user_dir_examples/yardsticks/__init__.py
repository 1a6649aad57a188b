"""Yardsticks of one's own: reading times, sentence similarity, people's other words.

truneg evaluate MODEL --user-dir user_dir_examples/yardsticks --task sts=dev.tsv
truneg experiment FILE.yaml --user-dir user_dir_examples/yardsticks        # under evaluations: sts: dev.tsv
"""

from . import other_words, reading, similarity  # noqa: F401
