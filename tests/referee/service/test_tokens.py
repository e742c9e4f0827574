"""Who may enrol whom: the token for individuals admits one agent each, and nobody else's operator."""

import pytest

from common.core.errors import Unauthorized
from common.crypto.identity import Identity
from common.net import messages
from tests.support import TOKEN, seal

pytestmark = pytest.mark.usefixtures("each_store")

INDIVIDUAL = "for-individuals-only"


def test_a_token_for_individuals_admits_no_host(bench):
    referee = bench.referee
    referee.allow("individual", INDIVIDUAL)
    person = Identity.create()
    assert referee.enrol(seal(person, messages.Enrolment(agents=1)), INDIVIDUAL).message["agents"] == 1
    with pytest.raises(Unauthorized, match="enrolment token"):
        referee.enrol(seal(Identity.create(), messages.Enrolment(agents=2)), INDIVIDUAL)
    with pytest.raises(Unauthorized):
        referee.authorize("operator", INDIVIDUAL)
    assert referee.registrar.roster.agents == bench.chosen.agents.count + 1


def test_the_enrolment_token_admits_both(bench):
    bench.referee.allow("individual", INDIVIDUAL)
    for agents in (1, 2):
        bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=agents)), TOKEN)
    assert bench.referee.registrar.roster.agents == bench.chosen.agents.count + 3


@pytest.mark.parametrize("agents", [1, 2])
def test_without_a_token_nobody_is_enrolled(bench, agents):
    with pytest.raises(Unauthorized):
        bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=agents)), "")
