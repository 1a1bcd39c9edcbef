"""Rules for every HTML page, checked with Python's own parser."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections import Counter
from html.parser import HTMLParser

_EMPTY = frozenset(
    ["meta", "link", "br", "hr", "img", "input", "area", "base", "col", "embed", "source", "track", "wbr"]
)
_LINKS = frozenset(
    ["href", "src", "action", "formaction", "data", "poster", "srcset", "xlink:href", "ping", "background"]
)


class Page(HTMLParser):
    """A parsed page: its ``text`` as a person sees it, and its ``faults``."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.faults: list[str] = []
        self.pictures: list[dict[str, str]] = []
        self.elements: Counter[str] = Counter()
        self._open: list[str] = []
        self._pieces: list[str] = []
        self._inside: dict[str, list[str]] = {"script": [], "style": []}
        self._ids: Counter[str] = Counter()
        self._regions: Counter[str] = Counter()
        self._references: list[str] = []
        self._policy = ""
        self.feed(source)
        self.close()
        self._finish()

    @property
    def text(self) -> str:
        """All text in order, with a newline after each element."""
        return "".join(self._pieces)

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs)
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, attrs)

    def _start(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.faults.append(f"{tag} has an attribute twice")
        given = {name: value or "" for name, value in attrs}
        for name, value in given.items():
            self._attribute(tag, name, value)
        if given.get("role") == "region":
            self._regions[given.get("aria-label", "")] += 1
        if tag == "svg":
            self.pictures.append({**given, "title": "", "desc": ""})
            if not given.get("aria-hidden") and given.get("role") != "img":
                self.faults.append("a picture is not said to be one")
        if tag == "meta" and given.get("http-equiv", "").lower() == "content-security-policy":
            self._policy = given.get("content", "")
        if tag == "th" and "scope" not in given:
            self.faults.append("a th has no scope")

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if name.startswith("on") or name == "style":
            self.faults.append(f"{tag} has {name}")
        if name in _LINKS and not value.startswith("#"):
            self.faults.append(f"{tag} leads to {value!r}")
        if name in _LINKS and value.startswith("#"):
            self._references.append(value[1:])
        if name == "aria-labelledby":
            self._references += value.split()
        if name == "id":
            self._ids[value] += 1
        if name != "xmlns" and re.search(r"(?i)(https?|javascript|data|file):", value):
            self.faults.append(f"{tag} {name} names {value!r}")
        self._characters(value)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> ends what is not open")
        self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside in self._inside:
            self._inside[inside].append(data)
            return
        if inside in ("title", "desc") and "svg" in self._open and self._open[-2] == "svg":
            self.pictures[-1][inside] += data
        self._characters(data)
        self._pieces.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        self.faults.append(f"a declaration: {data}")

    def _characters(self, text: str) -> None:
        for character in set(text) - {"\n"}:
            if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
                self.faults.append(f"the character U+{ord(character):04X}")

    def _finish(self) -> None:
        if self._open:
            self.faults.append(f"{self._open} are not ended")
        self.faults += [f"the id {name} {count} times" for name, count in self._ids.items() if count > 1]
        # Users who move from region to region by name need different names.
        self.faults += [f"{count} regions are called {name!r}" for name, count in self._regions.items() if count > 1]
        self.faults += [f"#{name} leads nowhere" for name in self._references if name not in self._ids]
        for kind in ("script", "style"):
            texts = self._inside[kind]
            digest = base64.b64encode(hashlib.sha256("".join(texts).encode()).digest()).decode()
            if self.elements[kind] != 1 or f"{kind}-src 'sha256-{digest}'" not in self._policy:
                self.faults.append(f"the policy does not hold the {kind}: {self._policy}")
            if re.search(r"(?i)https?:|@import|url\((?!#)|fetch\(|XMLHttp|eval\(|innerHTML", "".join(texts)):
                self.faults.append(f"the {kind} reaches out")
        if not self._policy.startswith("default-src 'none'"):
            self.faults.append("the policy allows what it does not name")
        for picture in self.pictures:
            if "aria-hidden" not in picture and not (picture["title"].strip() and picture["desc"].strip()):
                self.faults.append("a picture has no words")
        if not self.source.lstrip().lower().startswith("<!doctype html>"):
            self.faults.append("no doctype")
