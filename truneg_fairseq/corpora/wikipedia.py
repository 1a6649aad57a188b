"""Wikipedia's dumps to plain text: the prose of the articles, as BERT's authors took it.

What is left out: templates, tables, lists, headings, references, formulas, pictures, categories, redirects, and
the pages that are not articles. mwparserfromhell parses the markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.etree import ElementTree

from ..errors import TrueNegError

# Characters that XML forbids mark places of the text.
_PARAGRAPH_OF_A_LIST = "\0"
_APOSTROPHE = "\1"
_BORDER = "\2"
"""Apostrophes before and behind it are not read together."""
_QUOTES = re.compile(r"(''+)")
_POSSESSIVE = re.compile(r"s\b")
_SWITCH = re.compile(r"__[A-Z]+__")
_LEFT_OUT_TAGS = frozenset(
    "table ref references gallery math chem score timeline graph syntaxhighlight source pre code imagemap hiero "
    "mapframe maplink indicator templatedata inputbox categorytree section".split()
)
_LINE_TAGS = frozenset({"br", "hr", "p", "div", "blockquote", "center"})
_LIST_TAGS = frozenset({"li", "dt", "dd", "ul", "ol", "dl"})
_INTERLANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_FILE_SPACES = frozenset({"-2", "6", "14"})
"""The numbers of the namespaces Media, File and Category, whose names are in the dump."""
_PICTURE = re.compile(r"[^:]+:.*\.(?:jpe?g|png|svg|gif|tiff?|webp|og[gav]|webm|pdf|djvu)", re.IGNORECASE | re.DOTALL)
"""Namespaces have aliases ("Bild:" in German), which are not in the dump."""
_REFERENCE = re.compile(rb"&#(x[0-9a-fA-F]{1,8}|[0-9]{1,8});")
_LONGEST_REFERENCE = 12
_MOST_OPEN = 500
"""mwparserfromhell takes seconds to minutes for an article with thousands of brackets that are never closed."""
_BRACKETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(\{\{)|\}\}",
        r"(\[)|\]",
        r"(<(?!(?:br|hr|wbr|li|dt|dd|td|th|tr)\b)[a-zA-Z])|</|/>",
        r"(<!--)|-->",
    )
)
"""What opens (group 1) and what closes; tags that need no end are not among them."""


def read_articles(stream: BinaryIO, name: str) -> Iterator[list[str] | None]:
    """The articles of a dump, each as its paragraphs; None for what is left out (redirects, other pages).

    Args:
        stream: MediaWiki's XML export (``pages-articles.xml``).
        name: what a message calls the dump.
    """
    hidden = {"file", "image", "category", "media"}
    pages = 0
    try:
        for tag, element, root in _elements(stream):
            if tag == "namespace" and element.get("key") in _FILE_SPACES and element.text:
                hidden.add(element.text.casefold())
            if tag == "page":
                pages += 1
                yield _article(element, frozenset(hidden))
                root.clear()  # or the whole dump stays in memory
    except ElementTree.ParseError as error:
        raise TrueNegError(
            f"{name}: is truncated or no XML ({error}); expected Wikipedia's pages-articles.xml"
        ) from None
    if pages == 0:
        raise TrueNegError(f"{name}: has no page; expected Wikipedia's pages-articles.xml")


def plain_paragraphs(
    markup: str, hidden: frozenset[str] = frozenset({"file", "image", "category", "media"})
) -> list[str]:
    """The prose of an article's markup, a paragraph each.

    Args:
        markup: MediaWiki's.
        hidden: names of the namespaces, in lower case, whose links show nothing or a picture.
    """
    try:
        import mwparserfromhell
    except ImportError:
        raise TrueNegError(
            "Wikipedia's markup needs the package mwparserfromhell; pip install mwparserfromhell"
        ) from None
    text = "".join(_prose(mwparserfromhell.parse(markup, skip_style_tags=True), hidden))
    lines = (line for line in _SWITCH.sub("", text).split("\n") if _PARAGRAPH_OF_A_LIST not in line)
    shown = (without_quotes(line).replace(_BORDER, "").replace(_APOSTROPHE, "'").split() for line in lines)
    return [" ".join(words) for words in shown if words]


def without_quotes(line: str) -> str:
    """A line without the apostrophes that mean italics (two), bold (three) or both (five), as MediaWiki reads them.

    Of four the first one is shown, of more than five all but the last five. Where italics and bold are both left open,
    one "bold" is an apostrophe and italics: the first one behind a word of one letter ("l'''Odyssée''"), else behind a
    longer one ("''Time'''s"), else behind a space. Other than in MediaWiki "''Time'''s" is read so wherever it stands.
    """
    parts = _QUOTES.split(line)
    italics = bold = False
    first_bold: dict[int, int] = {}  # by the choice
    for place in range(1, len(parts), 2):
        before, quotes, after = parts[place - 1 : place + 2]
        shown = 1 if len(quotes) == 4 else max(0, len(quotes) - 5)
        meant = len(quotes) - shown
        if meant == 3 and italics and not bold and before.rstrip(_BORDER)[-1:].isalnum() and _POSSESSIVE.match(after):
            shown, meant = 1, 2
        parts[place - 1 : place + 1] = before + "'" * shown, ""
        if meant == 3:
            before = parts[place - 1]
            choice = 2 if before.endswith(" ") else 0 if before[-2:-1] == " " else 1
            first_bold.setdefault(choice, place)
        italics ^= meant != 3
        bold ^= meant != 2
    if italics and bold and first_bold:
        parts[first_bold[min(first_bold)]] = "'"
    return "".join(parts)


def _elements(stream: BinaryIO) -> Iterator[tuple[str, ElementTree.Element, ElementTree.Element]]:
    events = ElementTree.iterparse(_LegalReferences(stream), events=("start", "end"))
    _, root = _next_event(events)
    while (found := _next_event(events)) is not None:
        event, element = found
        if event == "end":
            # The names have the export's version before them.
            yield element.tag.rpartition("}")[2], element, root


class _LegalReferences:
    """A dump in which references to characters that XML forbids, such as ``&#xD800;``, are text of the article.

    One of them would end the whole dump; in an article's text mwparserfromhell and its reader deal with them.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, empty at the end only; a reference is never cut."""
        while True:
            block = self._stream.read(size)
            data = self._held + block
            end = len(data)
            start = data.rfind(b"&", max(0, end - _LONGEST_REFERENCE))
            if block and start >= 0 and b";" not in data[start:]:
                end = start
            self._held = data[end:]
            if end or not block:
                return _REFERENCE.sub(_escaped_if_forbidden, data[:end])


def _escaped_if_forbidden(reference: re.Match[bytes]) -> bytes:
    digits = reference[1]
    number = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    allowed = number in (9, 10, 13) or 32 <= number <= 0xD7FF or 0xE000 <= number <= 0xFFFD
    return reference[0] if allowed or 0x10000 <= number <= 0x10FFFF else b"&amp;" + reference[0][1:]


def _next_event(events: Iterator[Any]) -> Any:
    """What iterparse gives next, None at the end; expat's other errors, such as an unknown encoding, as ParseError."""
    try:
        return next(events, None)
    except (LookupError, ValueError) as error:
        raise ElementTree.ParseError(str(error)) from None


def _article(page: ElementTree.Element, hidden: frozenset[str]) -> list[str] | None:
    if page.findtext("{*}ns") not in (None, "0") or page.find("{*}redirect") is not None:
        return None
    markup = page.findtext("{*}revision/{*}text") or ""
    if any(_most_open(bracket, markup) > _MOST_OPEN for bracket in _BRACKETS):
        return None
    try:
        return plain_paragraphs(markup, hidden)
    except RecursionError:  # markup that no page of prose has
        return None


def _most_open(bracket: re.Pattern[str], markup: str) -> int:
    """The largest number of brackets that are open at the same place."""
    open_now = most = 0
    for found in bracket.finditer(markup):
        open_now = open_now + 1 if found[1] else max(0, open_now - 1)
        most = max(most, open_now)
    return most


def _prose(code: Any, hidden: frozenset[str]) -> Iterator[str]:
    """The visible text of parsed markup, with list lines marked."""
    from mwparserfromhell import nodes

    for node in code.nodes:
        if isinstance(node, nodes.Text):
            yield str(node.value)
        elif not isinstance(node, nodes.Comment):
            yield _BORDER
            if isinstance(node, nodes.HTMLEntity):
                yield _character(node).replace("'", _APOSTROPHE)
            elif isinstance(node, nodes.Wikilink):
                yield from _link(node, hidden)
            elif isinstance(node, nodes.ExternalLink):
                yield from _prose(node.title, hidden) if node.title is not None else ()
            elif isinstance(node, nodes.Tag):
                yield from _tag(node, hidden)
            yield _BORDER
        # Headings, templates, arguments and comments show no prose.


def _tag(node: Any, hidden: frozenset[str]) -> Iterator[str]:
    tag = str(node.tag).strip().lower()
    if tag in _LEFT_OUT_TAGS:
        return
    if tag in _LIST_TAGS:
        yield _PARAGRAPH_OF_A_LIST
    if tag in _LINE_TAGS:
        yield "\n"
    if node.contents is not None:
        prose = _prose(node.contents, hidden)
        yield from (text.replace("'", _APOSTROPHE) for text in prose) if tag == "nowiki" else prose


def _link(node: Any, hidden: frozenset[str]) -> Iterator[str]:
    title = str(node.title).strip()
    space, colon, _ = title.partition(":")
    # With a colon before it, a link to such a page is shown.
    if colon and (space.strip().casefold() in hidden or (node.text is None and _INTERLANGUAGE.fullmatch(space))):
        return
    if _PICTURE.fullmatch(title):
        return
    if node.text is None:
        yield title.removeprefix(":")
    else:
        yield from _prose(node.text, hidden)


def _character(node: Any) -> str:
    try:
        return str(node.normalize())
    except (ValueError, OverflowError):  # &#x110000;
        return ""
