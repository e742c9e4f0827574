"""What a referee answers to the agent in JavaScript: its words reach a person, and nothing else of it does."""

import shutil

import pytest

from tests.local_agent.web.node import in_node

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")


def test_a_referees_reasons_are_shown_in_visible_characters() -> None:
    script = """
        import { RefereeClient } from "WEB/client.js";
        const body = JSON.stringify({ type: "urn:tandem:problem:refused", detail: "full\\u001b[2J\\u202e\\nAnswer?" });
        const fetch = async () => new Response(body, { status: 403 });
        const client = new RefereeClient("https://referee.example", { fetch });
        console.log(JSON.stringify(await client.configuration("run").catch(({ detail }) => detail)));
    """
    assert in_node(script) == "full\\x1b[2J\\u202e\\x0aAnswer?"


def test_json_with_very_long_strings_is_read() -> None:
    script = """
        import { decode, utf8 } from "WEB/messages.js";
        const texts = ["x".repeat(15 << 20), '"'.repeat(7 << 20), "\\\\".repeat(7 << 20)];
        const same = (text) => decode(utf8(JSON.stringify({ "a\\\\": text })))["a\\\\"] === text;
        console.log(JSON.stringify(texts.map(same)));
    """
    assert in_node(script) == [True, True, True]
