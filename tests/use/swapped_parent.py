"""A plugin of pytest for `test_model_tests.py`: a generated module stands in the place of its parent.

Tests that import the parent, or take its classes from `transformers` or from an auto class, get the
variant's.  A new model (`LlamaMoeModel`) takes the names of its parent (`LlamaModel`), its
configuration too; what it has no class for stays the parent's.  What came of each test is written
to a file.  Settings are variables of the environment:

    MODEL_TESTS_PARENT    transformers.models.llama.modeling_llama
    MODEL_TESTS_VARIANT   generated.llama.modeling_llama_loss; absent: the parent itself is tested
    MODEL_TESTS_RESULTS   a file of JSON: {test: [state, skipped subtests, message of a failure]}
"""

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

NEW = "Moe"  # what the names of new models have in addition


def put_in_place(parent_name, variant_name):
    parent = importlib.import_module(parent_name)
    package_name, _, name = parent_name.rpartition(".")
    package = importlib.import_module(package_name)
    variant = importlib.import_module(variant_name)
    take_names(parent, variant)
    sys.modules[parent_name] = variant
    setattr(package, name, variant)
    loaded = [module for key, module in sys.modules.items() if key.startswith("transformers")]
    for module in loaded:
        if module in (parent, variant):
            continue
        for key, value in list(vars(module).items()):
            if getattr(value, "__module__", "") == parent_name and hasattr(variant, key):
                setattr(module, key, getattr(variant, key))


def take_names(parent, variant):
    """Give the classes of a new model the names that tests of its parent know."""
    for name in variant.__all__:
        own, known = getattr(variant, name), name.replace(NEW, "")
        if known != name and hasattr(parent, known):
            own.__name__ = own.__qualname__ = known
            setattr(variant, known, own)
            if hasattr(own, "model_type"):
                own.model_type = getattr(parent, known).model_type
    for name in parent.__all__:
        if not hasattr(variant, name):
            setattr(variant, name, getattr(parent, name))


if "MODEL_TESTS_VARIANT" in os.environ:
    names = [os.environ["MODEL_TESTS_PARENT"], os.environ["MODEL_TESTS_VARIANT"]]
    configurations = [name.replace(".modeling_", ".configuration_") for name in names]
    if importlib.util.find_spec(configurations[1]):
        put_in_place(*configurations)
    put_in_place(*names)

RESULTS = {}


def pytest_runtest_logreport(report):
    name = report.nodeid.partition("::")[2]
    state, skipped, message = RESULTS.get(name, ("passed", 0, ""))
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = message or str(crash.message if crash else report.longrepr)[:600]
        state = "failed"
    elif report.skipped and getattr(report, "context", None) is not None:
        skipped += 1  # a subtest: the test goes on
    elif report.skipped and state == "passed":
        state = "skipped"
    RESULTS[name] = (state, skipped, message)


def pytest_sessionfinish(session):
    Path(os.environ["MODEL_TESTS_RESULTS"]).write_text(json.dumps(RESULTS), encoding="utf-8")
