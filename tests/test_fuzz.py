"""Every reader with damaged files, the short form; tests/long/fuzz.py is the long one."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fuzz import READERS, make_valid, run_case


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    made = {}

    def make(reader):
        if reader.name not in made:
            made[reader.name] = make_valid(reader, tmp_path_factory.mktemp("fuzz") / "valid")
        return made[reader.name]

    return make


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_damaged_files_are_refused_in_one_line_or_read(reader, valid, seed):
    folder = valid(reader)
    run_case(reader, folder, folder.with_name("work"), random.Random(seed))
