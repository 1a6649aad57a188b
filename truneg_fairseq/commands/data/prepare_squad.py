"""Prepares SQuAD for fairseq."""

from __future__ import annotations

from ...squad.options import PrepareSquadOptions


def prepare_squad(options: PrepareSquadOptions) -> None:
    """Prepares SQuAD 1.1 or 2.0 as sliding windows with the pre-trained model's own tokenizer, and prints what each
    split holds.
    """
    from ...squad.prepare import prepare_squad as prepare

    info, made = prepare(options)
    print(f"{options.output_dir}: {'made' if made else 'is already there; remove it to make it again'}")
    for name, split in info["splits"].items():
        longer = ", ".join(f"{count:,} longer than {length}" for length, count in split["longer_than"].items())
        print(
            f"{name}: {split['questions']:,} questions ({split['impossible']:,} impossible; {longer}; "
            f"{split['cut_queries']:,} cut to {options.max_query_length}) on {split['contexts']:,} contexts, "
            f"{split['windows']:,} windows ({split['without_answer']:,} without the answer), "
            f"{split['tokens']:,} tokens, {split['unknown']:,} unknown"
        )
        for reason, ids in split["not_found"].items():
            print(f"{name}: {'skipped' if name == 'train' else 'kept'} {len(ids):,}, {reason} (e.g. {ids[0]})")
