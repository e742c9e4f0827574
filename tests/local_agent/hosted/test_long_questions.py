"""A question over HTTP to a host of millions of people, of whom each is listed."""

from contextlib import closing

import httpx
import numpy as np
import pytest

from common.core.errors import PeerMisbehaved
from common.core.version import HEADER, stated
from common.crypto.identity import Identity
from common.net import messages
from local_agent.client import HostClient, RefereeClient


def test_a_host_takes_the_longest_question_and_one_person_does_not():
    people = np.arange(messages.MAX_LISTED)
    listed = {"people": messages.pack_slots(people[::-1]), "slots": messages.pack_slots(people[::-1])}
    question = Identity.create().sign(messages.Assignment.KIND, {**listed, "query": {"kind": "x" * (1 << 20)}})
    answers = httpx.MockTransport(
        lambda request: httpx.Response(200, content=question.raw(), headers={HEADER: stated()})
    )
    poll = Identity.create().sign(messages.Poll.KIND, {})
    with closing(HostClient("http://127.0.0.1:1", patience=0.0, transport=answers)) as host:
        assert host.poll(poll) == question
    with (
        closing(RefereeClient("http://127.0.0.1:1", patience=0.0, transport=answers)) as individual,
        pytest.raises(PeerMisbehaved, match="more than 16,777,216 bytes"),
    ):
        individual.poll(poll)
