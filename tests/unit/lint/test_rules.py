"""Every code of lint belongs to one rule."""

import re
from collections import Counter

from patchgen.upstream.lint.rules import CLASS_RULES, COMPARISON, FILE_RULES, OUTPUT_RULES
from tests.toytree import REPOSITORY

# A refusal of the strict profile, and an output that is missing: nothing can be compared then.
BEFORE_ANY_RULE = {"PG701", "PG710"}


def test_every_code_belongs_to_one_rule():
    rules = [*FILE_RULES, *CLASS_RULES, COMPARISON, *OUTPUT_RULES]
    counted = Counter(code for rule in rules for code in rule.codes)
    assert set(counted.values()) == {1}
    used = set()
    for path in (REPOSITORY / "patchgen/upstream/lint").glob("*.py"):
        used |= set(re.findall(r'finding\(\s*"(PG\d+)"', path.read_text(encoding="utf-8")))
    assert used - BEFORE_ANY_RULE == set(counted)
