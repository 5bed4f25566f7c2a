"""Read one release, and record what a conversion reads of it.

A `View` is an environment in which `transformers` is the release, and everything else is the
project's.  It notes each question with its answer.  Another release that gives the same answers
gives the same outputs, so no conversion is needed for it.

    file transformers.modeling_utils       the sha256 of the module's file; empty: there is none
    there transformers.activations         yes: the module exists, and nobody has read it
    word initialization                    the sha256 of the names of the files that spell it
    packages                               that of every `transformers/models/X/__init__.py`
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.author.survive.files import PACKAGE, ReleaseFiles
from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import MAX_BYTES, Source, decode, make_source

PACKAGES = "packages"
_MODELS = f"{PACKAGE}/models/"
# Every release has another number, and no output depends on it.
_VERSION = re.compile(rb"^__version__ = .*$", re.MULTILINE)
_ROOT = Path("/").joinpath("release of transformers")  # no folder: files of a wheel have no path


@dataclass(frozen=True, kw_only=True)
class View(Environment):
    """An environment over the files of one release; `asked` maps questions to answers.

    `parsed` are the modules of all releases by the digests of their files: most do not change.
    """

    files: ReleaseFiles
    own: Environment
    parsed: dict[tuple[str, str], ModuleIndex] = field(repr=False, compare=False)
    asked: dict[str, str] = field(default_factory=dict, compare=False)
    _answers_known: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _texts: dict[str, Source] = field(default_factory=dict, repr=False, compare=False)

    def look(self, question: str, subject: str) -> str:
        """As in `Environment`."""
        # That is asked word by word here, so that other releases can be asked the same.
        if question == "star" and is_upstream(subject.partition(" ")[2]):
            return "may"
        if question != "module" or not is_upstream(subject):
            return self.own.look(question, subject)
        name = self.files.name_of(subject)
        if not name:
            self.asked[f"file {subject}"] = ""
            return ""
        # Which models there are is known from the packages that name them.
        if not name.startswith(_MODELS):
            self.asked.setdefault(f"there {subject}", "yes")
        return str(_ROOT / name)

    def source(self, module: str, at: Location) -> Source:
        """As in `Environment`."""
        if not is_upstream(module):
            source = self.own.source(module, at)
            self.asked[f"file {module}"] = source.digest
            return source
        name = self.files.name_of(module)
        if not name:
            return super().source(module, at)  # says what is missing
        self._note_read(module, name)
        if module not in self._texts:
            self._texts[module] = make_source(self._decoded(name), name, module)
        return self._texts[module]

    def index(self, module: str, at: Location) -> ModuleIndex:
        """As in `Environment`."""
        source = self.source(module, at)
        if not is_upstream(module):
            return self.own.index(module, at)
        key = module, source.digest
        if key not in self.parsed:
            self.parsed[key] = index(source)
        return self.parsed[key]

    def spells(self, module: str, word: str) -> bool:
        """As in `Environment`; of hundreds of models, the question is which ones spell it."""
        name = self.files.name_of(module) if is_upstream(module) else ""
        if not name.startswith(_MODELS):
            return super().spells(module, word)
        self.asked[f"word {word}"] = self.answer(f"word {word}")
        return word.encode() in self.files.read(name)

    def answer(self, question: str) -> str:
        """The answer of this release to a question that was noted before."""
        if question not in self._answers_known:
            self._answers_known[question] = self._answer(question)
        return self._answers_known[question]

    def _answer(self, question: str) -> str:
        kind, _, subject = question.partition(" ")
        match kind:
            case "file" if subject == PACKAGE:
                name = self.files.name_of(subject)
                return hashlib.sha256(_VERSION.sub(b"", self.files.read(name))).hexdigest()
            case "file" if is_upstream(subject):
                return self.files.digest_of(self.files.name_of(subject))
            case "file":
                return digest_of_own(self.own, subject)
            case "there":
                return "yes" if self.files.name_of(subject) else ""
            case "word":
                word = subject.encode()
                models = [name for name in self.files.names if name.startswith(_MODELS)]
                return _digest(name for name in models if word in self.files.read(name))
            case _:
                names = [n for n in self.files.names if _is_package_of_models(n)]
                return _digest(f"{name} {self.files.digest_of(name)}" for name in names)

    def _note_read(self, module: str, name: str) -> None:
        # There are hundreds of packages, and a name that is looked for behind a star is looked
        # for in all of them: one question stands for all.
        question = PACKAGES if _is_package_of_models(name) else f"file {module}"
        self.asked[question] = self.answer(question)

    def _decoded(self, name: str) -> str:
        data = self.files.read(name)
        if len(data) > MAX_BYTES:
            what = f"is {len(data):,} bytes long; the limit is {MAX_BYTES:,}"
            raise PatchgenError("PG002", Location(name), what)
        return decode(data, name, allow_bidi=self.allow_bidi)


def make_view(
    files: ReleaseFiles, own: Environment, parsed: dict[tuple[str, str], ModuleIndex]
) -> View:
    """The view of a release for a project whose own modules `own` finds."""
    roots = (_ROOT, *own.roots)
    bidi, archives = own.allow_bidi, own.archives
    return View(roots, own.home, bidi, archives, files=files, own=own, parsed=parsed)


def digest_of_own(own: Environment, module: str) -> str:
    """The sha256 of a module that is not of the release; empty where there is none."""
    try:
        return own.source(module, Location(module)).digest
    except PatchgenError:
        return ""


def is_upstream(module: str) -> bool:
    """Whether a module is one of transformers."""
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def _is_package_of_models(name: str) -> bool:
    return name.startswith(_MODELS) and name.endswith("/__init__.py")


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
