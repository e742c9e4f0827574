"""HTML of the local page: its templates within the common frame, and the fields of its own forms."""

from functools import cache
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request

from common.core.errors import BadMessage, Unauthorized
from common.net.pages import Pages, Rules
from common.net.tokens import same
from referee.view import pages as face

NAV = (("runs", "/", "Runs"), ("own", "/own", "New run"), ("plan", "/plan", "Plan"))


@cache
def pages() -> Pages:
    """Return the pages of this package and of a report, with the same filters and the same escaping."""
    return Pages(__name__.rpartition(".")[0], NAV, static=("verify.js",), around=face.environment)


def page(template: str, /, **values: Any) -> str:
    """Render a page, or a part of one."""
    return pages()(template, **values)


async def fields_of(request: Request, rules: Rules, most: int = 100) -> dict[str, str]:
    """Return the fields of a form; ``Unauthorized`` if it lacks the token of this server's own forms."""
    try:
        parsed = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise BadMessage("what was sent is not a form") from None
    fields = {name: values[-1] for name, values in parsed.items()}
    if not same(fields.pop("token", ""), rules.form_token):
        raise Unauthorized("the form is not one of this server's pages, or the server was started again: load the page")
    return fields
