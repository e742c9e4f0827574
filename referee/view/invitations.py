"""Invitations to the web page of a person's agent: links whose fragments hold what it needs, and a sheet to print.

Browsers do not send fragments, so neither the page's server nor the referee sees a link's fragment, and no log has it.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import segno
from markupsafe import Markup

from common.core.durable import make_folder, write_durably
from common.core.errors import BadInput
from common.net.origins import origin_of
from common.net.tls import base_address
from referee.view.pages import environment

SHEET, LINKS = "invitations.html", "links.txt"


def check_page(page: str, referee: str) -> tuple[str, str]:
    """Return the addresses of a page and of its referee, in the form for links.

    BadInput if no agent could work there: the page and the referee both need a secure origin.
    """
    origin_of(page)
    if "#" in page:
        raise BadInput(f"the page's address must have no fragment, which is the invitation's, found {page!r}")
    address = base_address(referee)
    if page.startswith("https://") and address.startswith("http://"):
        try:
            origin_of(address)
        except BadInput:
            raise BadInput(
                f"a browser lets no page of https:// ask {address}: start the referee with --tls-cert, and name it "
                "with https://"
            ) from None
    return page, address


def link(page: str, referee: str, key: str, code: str) -> str:
    """Return the link of one invitation."""
    return f"{page}#{urlencode({'referee': referee, 'key': key, 'invitation': code})}"


def terminal_qr(text: str) -> str:
    """Return a QR code for a terminal with light text on a dark background."""
    buffer = io.StringIO()
    _qr(text).terminal(buffer, compact=True)
    return buffer.getvalue()


def check_output(folder: Path) -> None:
    """Make the folder of a sheet, accessible to its owner only; BadInput if it has a sheet already."""
    for name in (SHEET, LINKS):
        if (folder / name).exists():
            raise BadInput(f"{folder / name} holds other invitations, which would be lost: give another --output")
    make_folder(folder, mode=0o700)


def write_sheet(folder: Path, page: str, codes: Sequence[str], links: Sequence[str]) -> None:
    """Write the links, and a printable sheet of their QR codes, durably and readable by their owner only."""
    # The library draws the code from the link; the SVG holds nothing but numbers.
    drawings = [Markup(_qr(text).svg_inline(omitsize=True)) for text in links]  # noqa: S704
    place = urlsplit(page)._replace(query="").geturl()
    sheet = environment().get_template(SHEET).render(page=place, cards=list(zip(codes, drawings, strict=True)))
    write_durably(folder / LINKS, "".join(f"{text}\n" for text in links).encode(), mode=0o600)
    write_durably(folder / SHEET, sheet.encode("utf-8", "backslashreplace"), mode=0o600)


def _qr(text: str) -> segno.QRCode:
    return segno.make_qr(text, error="m")
