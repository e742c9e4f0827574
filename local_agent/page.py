"""A page with which people answer in their browsers: a folder of static files, listed with their hashes and signed.

The page is made from local_agent/web: the agent in JavaScript, and a form for the columns of the scenario's table. Its
HTML file contains the SHA-256 of every other file, which browsers verify, and the public settings of the scenario.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from common.core import canonical
from common.core.durable import make_folder, write_durably
from common.core.errors import BadData, BadInput, BadMessage, NotFound
from common.core.folder import Kind, names, present, read
from common.core.plain import html as escape
from common.core.values import Value
from common.crypto.identity import KEY_PATTERN, Identity, Signed, verify
from common.crypto.vouching import IssuerKey
from common.data.tables import Feature, Number, TableSource
from common.net.client import Client
from common.net.origins import as_browsers_write
from common.net.tls import base_address
from common.scenario.loading import DescribedPeople

WEB = resources.files(__name__.rpartition(".")[0]) / "web"
FRAME, MANIFEST, STYLE = "index.html", "manifest.json", "page/style.css"
FIRST, KINDS = "page/page.js", "questions.js"  # the module that starts, and the one that lists families of kinds
# The module, and the texts, that a page contains only if it has the party.
LATER = {"relay": "relay.js", "issuer": "credential.js", "witness": "witness.js"}
TEXTS = {"relay": ("who_relay",), "issuer": ("who_issuer", "code", "code_note"), "witness": ("who_witness",)}
RIGHT_TO_LEFT = {"ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"}  # languages
_FILE = Kind("file of a page", 1 << 20)
_TEXTS = Kind("file of texts", 1 << 20)
_IMPORT = re.compile(r"""^(?:import|export)\b[^;"]*?\bfrom "(\.{1,2}/[a-z/]+\.js)";""", re.MULTILINE)
# The tables of questions.js: queries, then mechanisms.
_TABLES = re.compile(r"^const \w+ = registry\(.*? \{(.*?)\}\);$", re.MULTILINE | re.DOTALL)
_FAMILY = re.compile(r"(\w+): (\[[^\]]*\])")
_PIECE = r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)"  # of a template, up to its end or to the next expression in it
_SKIPPED = re.compile(r"(?:\s|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+")
_TOKEN = re.compile(rf"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`{_PIECE}|[\w$]+|.", re.DOTALL)
_REST = re.compile("}" + _PIECE, re.DOTALL)
_PATTERN = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/")
_BEFORE_PATTERN = {*"(,=:[!&|?{};>", "return"}  # tokens after which a slash is no division


class Manifest(Value):
    """The list of a page's files, as SHA-256 in hex by path, and of the parties that it talks to."""

    KIND: ClassVar[Literal["page"]] = "page"

    title: str
    referee: str
    referee_key: str = Field(pattern=KEY_PATTERN)
    relay: str | None = None
    issuer: str | None = None
    witness: str | None = None
    files: dict[str, str] = Field(min_length=1, max_length=100)


class PageServer(Client):
    """Client of the server of a page, to compare the page with its manifest."""

    party = "server of the page"
    most = _FILE.most


def public_schema(table: TableSource) -> dict[str, Any]:
    """Return a table's description of one person's fields, for local_agent/web/record.js.

    ``values`` are texts as they are listed; ``texts`` are the canonical texts for them, if these differ.
    """
    layout = table.layout

    def other(texts: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
        return {} if tuple(texts) == tuple(values) else {"texts": texts}

    def feature(each: Feature) -> dict[str, Any]:
        if isinstance(each, Number):
            return {**each.wire(), "fill": each.default}
        texts = other(each.texts(layout), each.groups)
        return {"kind": each.kind, "column": each.column, "values": each.groups, **texts}

    label = table.label
    return {
        "features": list(map(feature, table.features)),
        "label": {**label.wire(), **other(label.texts(layout), (label.positive, label.negative))},
        "where": {
            column: {"values": values, **other(table.where_texts(column), values)}
            for column, values in table.where.items()
        },
        "missing": layout.missing_texts,
        "norm": table.norm,
        "decimal": layout.decimal,
        "marks": layout.marks,
    }


def settings(
    people: DescribedPeople,
    *,
    referee: str,
    key: str,
    relay: str | None,
    issuer: tuple[str, IssuerKey] | None = None,
    witness: str | None = None,
    epsilon: float,
    queries: Collection[str],
    texts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a page's settings: its scenario's people, the parties, and the policy; all of it is public.

    ``referee`` and ``relay`` are addresses; if there is a relay, the page asks the referee only through it.
    ``issuer`` is the address and public keys of the issuer that vouches for people; ``witness`` is the address of a
    witness that must have seen the history in which a report is counted. ``epsilon`` is the lifetime budget,
    ``queries`` the accepted kinds of questions (with the scenario's mechanism only), ``texts`` the texts of the page.
    BadInput if both witness and relay are given, or browsers cannot connect to an address.
    """
    if relay and witness:
        raise BadInput("a page would ask --witness past --relay, from a person's address: give one of the two")
    return {
        "title": people.title,
        "schema": public_schema(people.table),
        "referee": {"url": _address(referee), "key": key},
        "relay": None if relay is None else _address(relay),
        "issuer": None if issuer is None else {"address": _address(issuer[0]), "key": issuer[1].wire()},
        "witness": None if witness is None else _address(witness),
        "policy": {
            "epsilon": epsilon,
            "queries": sorted(queries),
            **({} if people.mechanism is None else {"mechanisms": [people.mechanism]}),
        },
        "texts": texts,
    }


def _address(url: str) -> str:
    address = base_address(url)
    if "[" in address:  # a host in a Content-Security-Policy cannot have brackets, so browsers would not connect
        raise BadInput(f"a page cannot ask {address}: browsers let no page name a number of IPv6; give a name for it")
    return address


def read_texts(path: Path | None) -> dict[str, Any]:
    """Return the texts of a page, replaced by those of a file, if given; BadData if one is unknown or not a text."""
    texts: dict[str, Any] = json.loads((WEB / "page" / "texts.json").read_text("utf-8"))
    if path is None:
        return texts
    try:
        replacements = dict(json.loads(read(path, _TEXTS)))
    except (ValueError, TypeError, RecursionError):
        raise BadData(f'{path} must hold texts by their names, as in {{"answer": "Answer"}}') from None
    for name, text in replacements.items():
        if name not in texts or not isinstance(text, type(texts[name])):
            raise BadData(f"{path}: {name!r} is no text of the page; there are: {', '.join(sorted(texts))}")
    problems = texts["problems"] | replacements.get("problems", {})
    if not all(isinstance(text, str) for text in problems.values()):
        raise BadData(f"{path}: each of the problems must have a text")
    for column, words in replacements.get("columns", {}).items():
        if not _describes_column(words):
            example = '{"label": "Visits", "note": "a month", "values": {"pro": "Professional"}}'
            raise BadData(f"{path}: columns: {column!r} must have texts, as in {example}")
    return texts | replacements | {"problems": problems}


def _describes_column(words: Any) -> bool:
    """Return whether a value is a column's texts: a label, a note and names of values, each of which may be absent."""
    if not isinstance(words, dict) or not words.keys() <= {"label", "note", "values"}:
        return False
    label, note, values = words.get("label", ""), words.get("note", ""), words.get("values", {})
    if not (isinstance(values, dict) and isinstance(label, str) and isinstance(note, str)):
        return False
    return all(isinstance(text, str) for text in values.values())


def write_page(folder: Path, settings: Mapping[str, Any], identity: Identity) -> Signed:
    """Write a page with the given :func:`settings`; return the list of its files, signed by ``identity``.

    BadInput if the folder is neither new nor empty.
    """
    if folder.exists() and (not folder.is_dir() or names(folder)):
        raise BadInput(f"{folder} is there already: give --output a new folder, or empty that one")
    later = [*(path for party, path in LATER.items() if settings[party]), *_families(settings["policy"])]
    files = {name: plain_module((WEB / name).read_text("utf-8")) for name in _modules(FIRST, *later)}
    # Loaded with the first module: browsers cache a dynamic import that failed, so that it could not be repeated.
    files[FIRST] = "".join(f'import"../{name}";' for name in later).encode() + files[FIRST]
    files[STYLE] = _plain_style((WEB / STYLE).read_text("utf-8"))
    files[FRAME] = _frame(files, settings)
    manifest = Manifest(
        title=settings["title"],
        referee=settings["referee"]["url"],
        referee_key=settings["referee"]["key"],
        relay=settings["relay"],
        issuer=settings["issuer"] and settings["issuer"]["address"],
        witness=settings["witness"],
        files={name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    )
    signed = identity.sign(Manifest.KIND, manifest.wire())
    for name, content in {**files, MANIFEST: signed.raw()}.items():
        make_folder((folder / name).parent)
        write_durably(folder / name, content)
    return signed


def plain_module(text: str) -> bytes:
    """Return a module minified: without comments and unnecessary spaces."""
    tokens, opened, start = [""], [""], 0
    while start < len(text):
        skipped = _SKIPPED.match(text, start)
        start = skipped.end() if skipped else start
        form = _TOKEN
        if text[start : start + 1] == "/" and tokens[-1] in _BEFORE_PATTERN:
            form = _PATTERN
        elif text[start : start + 1] == "}" and opened.pop() == "${":
            form = _REST
        token = form.match(text, start)
        if token is None:
            break
        start, last, word = token.end(), tokens[-1][-1:], token[0]
        if word == "}" and last in (";", ","):
            tokens.pop()  # a semicolon or comma before a closing brace is unnecessary
        if word.endswith(("${", "{")):
            opened.append(word[-2:])
        if skipped and last == "}":  # it may end a block before a word; other statements end with a semicolon
            tokens.append("\n" if "\n" in skipped[0] and not re.match(r"[\w$}]", word) else "")
        elif skipped and re.fullmatch(r"[\w$]{2}|\+\+|--", last + word[0]):
            tokens.append(" ")
        tokens.append(word)
    return "".join(tokens).encode()


def _plain_style(text: str) -> bytes:
    return re.sub(r" ?([{};,]) ?", r"\1", re.sub(r"\s+", " ", text)).replace(": ", ":").replace(";}", "}").encode()


def _families(policy: Mapping[str, Any]) -> list[str]:
    """Return the modules of the kinds that a policy accepts, which questions.js will load."""
    modules = []
    for table, accepted in zip(
        _TABLES.findall((WEB / KINDS).read_text("utf-8")), ("queries", "mechanisms"), strict=True
    ):
        for module, kinds in _FAMILY.findall(table):
            if accepted not in policy or set(json.loads(kinds)) & set(policy[accepted]):
                modules.append(f"{module}.js")
    return modules


def _modules(*first: str) -> list[str]:
    modules = list(first)
    for name in modules:  # the list grows during the loop
        for other in _IMPORT.findall((WEB / name).read_text("utf-8")):
            path = other.removeprefix("../") if other.startswith("../") else str(Path(name).parent / other)
            if path not in modules:
                modules.append(path)
    return modules


def _frame(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> bytes:
    """Return the HTML: security policy, hashes of the files, and the settings, as data that browsers do not execute."""
    referee, issuer = (
        settings["relay"] or settings["referee"]["url"],
        settings["issuer"] and settings["issuer"]["address"],
    )
    dialled = filter(None, (referee, issuer, settings["witness"]))
    before, _, rest = (WEB / "page" / FRAME).read_text("utf-8").partition("<script>")
    script, _, after = rest.partition("</script>")
    again = plain_module(script)
    pinned = {name: _pinned(content) for name, content in files.items()}
    preloads = [
        f'<link rel=modulepreload href="{name}" integrity="{pinned[name]}">'
        for name in files
        if name.endswith(".js") and name != FIRST
    ]
    parts = {
        "language": escape(settings["texts"]["language"]),
        "direction": "rtl" if settings["texts"]["language"].split("-")[0] in RIGHT_TO_LEFT else "ltr",
        "title": escape(settings["title"]),
        "connect": escape(" ".join(map(as_browsers_write, dialled))),
        "again": _pinned(again),
        "style": pinned[STYLE],
        "first": pinned[FIRST],
        "modules": "".join(preloads),
        "needs_scripts": escape(settings["texts"]["needs_scripts"]),
        "settings": canonical.encode(_needed(settings)).decode().replace("<", "\\u003c"),
    }
    frame = f"{before}<script>{again.decode()}</script>{after}"
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], frame).encode()


def _pinned(content: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _needed(settings: Mapping[str, Any]) -> dict[str, Any]:
    unused = {name for party, names in TEXTS.items() if not settings[party] for name in names}
    unused.add("needs_scripts")  # it is in the frame
    texts = {name: text for name, text in settings["texts"].items() if name not in unused}
    values = {name: value for name, value in settings.items() if name != "title" and value is not None}
    return {**values, "texts": texts}


def check_page(place: str, maker: str | None = None) -> tuple[Manifest, str]:
    """Verify a page against its manifest; return that, and the key that signed it, which must be ``maker`` if given.

    ``place`` is its folder, or the address at which it is served; an address shows only what it serves to this process.
    BadData if a file differs, is missing, or is not listed. Forged if the signature does not verify, or is by another
    key.
    """
    if "://" in place:
        server = PageServer(place, patience=10.0)
        try:
            # A browser opens the folder's address, for which a server may reply with another file.
            return _checked(
                lambda name: server.request("GET", "/" if name == FRAME else f"/{name}").content, place, maker
            )
        finally:
            server.close()
    folder = Path(place)
    if not present(folder, MANIFEST):
        raise NotFound(f"{folder} has no {MANIFEST}: it is no folder that local-agent page has written")
    manifest, signer = _checked(lambda name: read(Path(name), _FILE, folder), place, maker)
    listed = {MANIFEST, *manifest.files}
    more = sorted({path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()} - listed)
    if more:
        raise BadData(f"{folder} holds {more[0]}, which its maker has not listed: this page was changed")
    return manifest, signer


def _checked(get: Callable[[str], bytes], place: str, maker: str | None) -> tuple[Manifest, str]:
    try:
        signed = Signed.parse(canonical.decode(get(MANIFEST)))
        manifest = Manifest.parse(verify(signed, Manifest.KIND, maker, "whom you named with --maker"))
    except BadMessage as error:
        raise BadData(f"{place}: {MANIFEST} is not the list of a page's files: {error.detail}") from None
    for name, digest in manifest.files.items():
        if not re.fullmatch(r"(?:page/)?[a-z]+\.[a-z]+", name):
            raise BadData(f"{place}: {MANIFEST} names {name!r}, which no page has")
        if hashlib.sha256(get(name)).hexdigest() != digest:
            raise BadData(f"{place}: {name} is not the file that its maker has signed: do not use this page")
    return manifest, signed.key
