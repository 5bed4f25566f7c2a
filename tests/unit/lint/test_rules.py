"""Every code of lint belongs to one rule."""

import re
from collections import Counter

from patchgen.upstream.lint.rules import RULES
from tests.toytree import REPOSITORY

# A refusal of the strict profile, and an output that is missing: nothing can be compared then.
BEFORE_ANY_RULE = {"PG701", "PG710"}


def test_every_code_belongs_to_one_rule():
    modules: dict[str, set[str]] = {}
    for rule in RULES:
        modules.setdefault(rule.code, set()).add(rule.check.__module__)
    # Decorators are compared on classes and on methods, by one module.
    assert all(len(places) == 1 for places in modules.values())
    counted = Counter(rule.code for rule in RULES)
    assert {code for code, times in counted.items() if times > 1} == {"PG724"}
    used = set()
    for path in (REPOSITORY / "patchgen/upstream/lint").glob("*.py"):
        used |= set(re.findall(r'finding\(\s*"(PG\d+)"', path.read_text(encoding="utf-8")))
    assert used - BEFORE_ANY_RULE == set(counted)
