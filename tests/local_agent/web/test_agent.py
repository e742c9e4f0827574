"""The JavaScript agent whose way to the referee has faults: never two answers, and none without consent."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from common.crypto.identity import Signed
from common.net.client import WitnessClient
from common.privacy.guarantee import repeated
from common.scenario.loading import load
from curator.startup import open_curator
from deploy.checking import checked
from deploy.deployment import RunOutput
from deploy.remote import Remote
from referee.service.witness import witness_app
from tests.deploy.test_scenarios_of_individuals import SMALL
from tests.local_agent.web.node import in_node
from tests.local_agent.web.test_scenarios import NodeCrowd, people_of
from tests.support import TOKEN, operated, served
from tests.vectors import read

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")]
ROOT = Path(__file__).parents[3]
NAME = "hypothesis-testing"


class Scene:
    """A run that asks five people: four in Node, and one whose way to the referee has faults."""

    def __init__(self, address: str, referee: str, folder: Path, enrolled: Callable[[], int], remote: Remote) -> None:
        self.address, self.enrolled, self._remote = address, enrolled, remote
        chosen = checked(load(NAME, [*SMALL[NAME], "agents.deadline=600"]))
        epsilon, delta = repeated(chosen.agents.cost, 1)
        self.chosen, self.records = chosen, people_of(chosen, 1)
        self.rules = {"referee": referee, "epsilon": epsilon, "delta": delta}
        self._usual = {
            "address": address,
            "token": TOKEN,
            "rules": self.rules,
            "record": self.records[0],
            "dimension": len(self.records[0]["features"]),
            "folder": str(folder / "agent"),
        }
        self.others = NodeCrowd(address, TOKEN, [self.rules], self.records[1:])

    def agent(self, status: int = 0, **changes: Any) -> list[dict[str, Any]]:
        """Run the one agent until it ends, with this exit status; return what it printed."""
        found = subprocess.run(
            ["node", "--no-warnings", str(Path(__file__).with_name("one.mjs"))],
            input=json.dumps({**self._usual, **changes}), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert found.returncode == status, found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    def asking(self) -> Future[RunOutput]:
        pool = ThreadPoolExecutor(1)
        return pool.submit(self._remote.run, self.chosen, 1, "run", lambda *_: None)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    chosen = checked(load(NAME, [*SMALL[NAME], "agents.deadline=600"]))
    with (
        closing(open_curator(chosen, folder / "curator", 1, None)) as curator,
        operated(folder / "referee", curator) as (referee, address, remote),
    ):
        yield Scene(address, referee.identity.public, folder, lambda: referee.registrar.roster.agents, remote)


def test_whatever_happens_on_the_way_one_answer_leaves_and_none_without_consent(tmp_path: Path) -> None:
    with scene(tmp_path) as it:
        answers = tmp_path / "agent" / "answers.json"
        enrolled = it.agent(steps=1, faults={"lose": 3})[-1]  # the network comes back
        assert enrolled["answers"] == []
        assert enrolled["sent"].count("POST /v1/enrolments") == 4
        with closing(it.others):
            it.others.start()
            asking = it.asking()
            forged = it.agent(faults={"tamper": {"POST /v1/polls": ['"slots":"', '"slots":"AAAA']}})
            assert forged[-2]["problem"] == "forged"
            assert forged[-1]["answers"] == []
            assert not any("words" in line for line in forged)
            other = it.agent(faults={"tamper": {"GET /v1/runs/run/configuration": ['"epsilon":', '"epsilon":1']}})
            assert other[-2]["problem"] == "forged"
            assert other[-1]["answers"] == []
            killed = it.agent(-signal.SIGKILL, faults={"kill": "PUT /v1/reports"})
            assert "Lifetime budget" in killed[-1]["words"]
            (stored,) = json.loads(answers.read_text())
            it.agent(-signal.SIGKILL, record=None, consent=False, faults={"killAfter": "PUT /v1/reports"})
            assert json.loads(answers.read_text()) == [stored]
            *states, last = it.agent(record=None, consent=False)
            result = asking.result()
            checking = {"record": None, "consent": False, "faults": {"check": True}}
            *_, after = it.agent(**checking)
            with (
                served(witness_app(tmp_path / "witness", TOKEN)) as place,
                closing(WitnessClient(place, TOKEN)) as known,
            ):
                *_, unseen = it.agent(**checking, witness=place)
                seen = json.loads((tmp_path / "agent" / "seen-run.json").read_text())["kept"]["checkpoint"]
                known.keep(Signed.parse(seen))
                *_, witnessed = it.agent(**checking, witness=place)
    assert [line["state"] for line in states] == ["answered", "finished"]
    assert last["answers"] == [stored]
    assert last["left"][0] == 0
    (receipt,) = last["receipts"].values()
    assert receipt["report"] == stored["report"]
    statuses = [[finding["status"] for finding in found["checked"]] for found in (after, unseen, witnessed)]
    assert statuses == [["included"], ["not witnessed"], ["included"]]
    assert result.result["agents"]["answered"] == len(it.records)


def test_who_says_no_answers_nothing_and_the_result_counts_it(tmp_path: Path) -> None:
    with scene(tmp_path) as it:
        it.agent(steps=1)
        with closing(it.others):
            it.others.start()
            asking = it.asking()
            *states, last = it.agent(consent=False)
            result = asking.result()
    assert (states[-1]["state"], states[-1]["problem"]) == ("declined", "consent-withheld")
    assert last["answers"] == []
    assert last["left"][0] == it.rules["epsilon"]
    assert [entry["event"] for entry in last["log"]] == ["asked", "declined"]
    assert result.result["lost"]["declined"] == {"consent-withheld": 1}


@pytest.mark.parametrize("early", [False, True])  # whether the input ends before anything is asked
def test_the_example_in_node_answers_a_running_referee(tmp_path: Path, early: bool) -> None:
    record = tmp_path / "me.json"
    with scene(tmp_path) as it:
        record.write_text(json.dumps(it.records[0]))
        arguments = [it.address, it.rules["referee"], str(record), str(tmp_path / "agent"), str(it.rules["epsilon"])]
        with closing(it.others):
            it.others.start()
            example = subprocess.Popen(
                ["node", "--no-warnings", str(ROOT / "examples" / "node" / "answer.mjs"), *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "TANDEM_INDIVIDUAL_TOKEN": TOKEN},
            )  # fmt: skip
            assert example.stdin is not None
            assert example.stdout is not None
            if early:
                example.stdin.write("y\n")
                example.stdin.close()
                example.stdin = None
            while it.enrolled() < len(it.records):
                time.sleep(0.05)
            asking = it.asking()
            said = ""
            while not said.endswith("[y/N] "):
                said += example.stdout.read(1) or pytest.fail(said)
            rest, _ = example.communicate(None if early else "y\n", timeout=300)
            result = asking.result()
    assert "What is asked: " in said
    assert "answered" in rest
    assert example.returncode == 0
    assert result.result["agents"]["answered"] == len(it.records)


def test_what_is_wrong_is_said_in_a_sentence_and_nothing_is_spent(tmp_path: Path) -> None:
    with scene(tmp_path) as it:
        folder = tmp_path / "agent"
        (key,) = it.agent(steps=1, rules={**it.rules, "referee": "0" * 64}, folder=str(tmp_path / "other"))[:1]
        assert key["problem"] == "forged"
        assert "another key" in key["detail"]
        token = it.agent(steps=1, token="wrong")[0]
        assert token["problem"] == "unauthorized"
        bad = it.agent(record={"features": [0.0], "label": 3})[-1]
        assert (bad["problem"], bad["sent"]) == ("bad-data", [])
        [lock] = folder.glob("lock-*")
        assert lock.read_text() == "0"  # whoever closed it holds it no more
        lock.write_text(str(threading.main_thread().native_id))
        held = it.agent()[-1]
        assert held["problem"] == "bad-input"
        assert "end it, or name another folder" in held["detail"]
        lock.write_text("0")
        (folder / "answers.json").write_text("[{")
        torn = it.agent()[-1]
        assert (torn["problem"], torn["sent"]) == ("bad-data", [])
        assert "was damaged" in torn["detail"]
        (folder / "answers.json").unlink()
        (folder / "answers.json").mkdir()
        unread = it.agent()[-1]
        assert (unread["problem"], unread["sent"]) == ("bad-data", [])
        assert "cannot be read (EISDIR)" in unread["detail"]
        assert [path.read_text() for path in folder.glob("lock-*")] == ["0"]
        assert not list(folder.glob(".lock*"))


HOLD = """
import { FolderStore } from "%s/folder.js";
const store = new FolderStore(process.argv[1]);
while (Date.now() < Number(process.argv[2]));
const found = await store.open().then(() => "held", (error) => error.problem);
console.log(found);
if (found === "held") { process.stdin.resume(); await new Promise((end) => process.stdin.once("end", end)); }
process.kill(process.pid, "SIGKILL");
"""


def test_of_processes_that_start_together_after_a_crash_one_holds_the_folder(tmp_path: Path) -> None:
    """Two would forget each other's answers, and what they cost."""
    script = HOLD % (ROOT / "local_agent" / "web").as_uri()
    node = ["node", "--input-type=module", "-e", script, str(tmp_path / "agent")]
    for _ in range(4):  # each but the first finds the lock of one that was killed
        at = str(int(1000 * (time.time() + 1.0)))
        started = [
            subprocess.Popen([*node, at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
        ]
        said = [each.stdout.readline().strip() for each in started if each.stdout]
        for each in started:
            each.communicate(timeout=60)
        assert sorted(said) == ["bad-input", "bad-input", "held"]


# Single steps of an agent in the memory ------------------------------------------------------------------------------

AGENT = """
import { Agent } from "WEB/agent.js";
import { MemoryStore } from "WEB/folder.js";
import { Refusal } from "WEB/values.js";
const { referee = "0".repeat(64), receipt, report, leaf, proof } = given ?? {};
const usual = { address: "http://x", dimension: 1, rules: { referee, epsilon: 1 }, consent: () => true };
const made = (more) => Agent.open({ ...usual, store: new MemoryStore(), ...more });
const said = (found) => console.log(JSON.stringify(found));
"""


def in_agent(script: str, given: str | None = None) -> Any:
    """Return what a script says that has agents, and a file of the vectors."""
    return in_node(AGENT + script, given and read(given))


def test_an_issuer_that_says_nothing_is_refused_and_after_a_crash_what_was_asked_is_forgotten() -> None:
    """With what it was blinded by, an issuer could tell whose a credential is."""
    script = """
        import { obtain } from "WEB/credential.js";
        const { agent, id, nonce, inverse, request, issuer } = given;
        const store = new MemoryStore();
        const asked = { issuer: id, agent, nonce, blinded: request.slice(6), inverse: inverse.padStart(512, "0") };
        await store.write("asked", asked);
        const fetch = async (_, { method }) => new Response(method === "GET" ? JSON.stringify(issuer) : "");
        const party = { address: "https://issuer.example", code: "code", key: issuer };
        const empty = await obtain(store, agent, party, { fetch }).catch((error) => error.problem);
        await store.write("credential", { issuer: id });
        await obtain(store, agent, party, { fetch });
        said([empty, await store.read("asked")]);
    """
    assert in_agent(script, "credentials") == ["forged", None]


def test_a_configuration_of_an_earlier_run_of_the_same_name_is_asked_for_anew() -> None:
    script = """
        const { cases, configurations } = given;
        const [{ rules, dimension, names, assignment, configuration }] = cases;
        const agent = await made({ rules, dimension, names });
        const another = ({ message }, at) => at !== configuration && message.run === "run";
        agent.configuration = configurations.find(another);
        agent.client.configuration = async () => configurations[configuration];
        agent.client.poll = agent.client.decline = async () => null;
        said([(await agent.takeUp(assignment)).state, (await agent.takeUp(assignment)).state]);
    """
    assert in_agent(script, "assignments") == ["closed", "closed"]


def test_what_was_shown_of_another_run_is_not_taken_for_this_one_where_both_have_one_file() -> None:
    script = """
        const agent = await made();
        const { store } = agent.options;
        agent.client.proof = async () => proof;
        agent.me.key = report.key;
        const { run, question } = report.message;
        agent.receipts[report.signature] = { receipt, report, leaf, sent: Date.now() / 1000 };
        const kept = structuredClone(proof.kept);
        kept.checkpoint.message.run = run.toUpperCase();
        await store.write(`seen-${run}`, { kept, questions: [question] });
        const [found] = await agent.check().catch((error) => [error]);
        const stored = await store.read(`seen-${run}`);
        said([found.status ?? found.detail, stored.kept.checkpoint.message.run === run]);
    """
    assert in_agent(script, "proofs") == ["included", True]


def test_no_referee_is_accused_by_a_state_that_another_device_has_made() -> None:
    """It proves to who has signed a report that it is counted, and the file of a state has no key."""
    script = """
        const agent = await made();
        agent.client.proof = async () => { throw new Refusal("not-found", "no report of this participant is stored"); };
        agent.receipts[report.signature] = { receipt, report, leaf, sent: Date.now() / 1000 };
        const statuses = [];
        for (const key of [agent.me.key, report.key]) {
          agent.me.key = key;
          statuses.push((await agent.check())[0].status);
        }
        said(statuses);
    """
    assert in_agent(script, "proofs") == ["not shown yet", "left out"]


def test_it_enrols_again_where_the_referee_was_put_back_to_before_that() -> None:
    script = """
        const agent = await made();
        agent.enrolled = true;
        let known = false;
        agent.enrol = async () => (known = true);
        agent.poll = async () => { if (!known) throw new Refusal("not-found", "not enrolled here"); };
        said([(await agent.step()).state, known]);
    """
    assert in_agent(script) == ["waiting", True]


def test_a_run_of_the_same_name_takes_no_receipts_place() -> None:
    script = """
        const agent = await made();
        agent.client.report = async () => receipt;
        const signature = "0".repeat(128);
        const earlier = { receipt, report: { ...report, signature }, sent: 1 };
        agent.receipts[signature] = earlier;
        agent.answers.push({ report, body: "00", epsilon: 1 });
        const before = agent.receipt ?? null;
        for (let times = 0; times < 2; times++) await agent.handIn(agent.answers[0]);
        const [first, second, ...more] = Object.values(await agent.options.store.read("receipts"));
        const found = [before, agent.receipt, first, second.report, second.sent > 1, more];
        said([found, [null, receipt, earlier, report, true, []]]);
    """
    kept, wanted = in_agent(script, "proofs")
    assert kept == wanted


def test_who_waits_for_days_leaves_nothing_on_the_signal_that_ends_it() -> None:
    script = """
        import { getEventListeners } from "node:events";
        import { pause } from "WEB/client.js";
        const over = new AbortController();
        for (let times = 0; times < 20; times++) await pause(0.001, over.signal);
        const left = getEventListeners(over.signal, "abort").length;
        setTimeout(() => over.abort(), 20);
        await pause(60, over.signal);
        said([left, getEventListeners(over.signal, "abort").length]);
    """
    assert in_agent(script) == [0, 0]


def test_a_state_that_lacks_something_is_not_taken() -> None:
    script = """
        const agent = await made();
        const whole = await agent.export();
        const found = [];
        for (const name of [null, "referee", "secret", "answers", "receipts", "log"])
          found.push(await agent.import({ ...whole, [name]: undefined }).then(() => "taken", (error) => error.problem));
        said(found);
    """
    assert in_agent(script) == ["taken", *["bad-data"] * 5]


def test_what_is_no_answer_of_the_referee_settles_no_report() -> None:
    """A faulty referee, or what stands before it, may not have read it: it is sent again, and is not called refused."""
    script = """
        const problem = (name) => ({ type: `urn:tandem:problem:${name}`, title: name });
        async function after(status, body, relay, headers) {
          const store = new MemoryStore();
          await store.write("answers", [{ epsilon: 1, delta: 0, question: "", report, body: "8080" }]);
          const text = typeof body === "string" ? body : JSON.stringify(body);
          const fetch = async () => new Response(text, { status, headers });
          const agent = await made({ store, patience: 0, relay, fetch });
          const state = await agent.step();
          return [state.problem ?? state.state, agent.unacknowledged !== undefined];
        }
        const relay = "https://relay.example";
        said([
          await after(200, receipt),
          await after(409, problem("pattern")),
          await after(410, problem("later")),
          await after(409, problem("busy")),
          await after(200, receipt, undefined, { "tandem-protocol": "3 others/1" }),
          await after(500, problem("internal")),
          await after(503, problem("superseded")),
          await after(200, "<html>"),
          await after(200, { status: "ok" }),
          await after(503, "", relay),
          await after(422, problem("ohttp-key"), relay),
          await after(200, "{}", relay),
        ]);
    """
    away = ["busy", True], ["busy", True], ["peer-misbehaved", True], ["peer-misbehaved", True]
    relayed = ["peer-unavailable", True], ["relay-untrusted", True], ["relay-untrusted", True]
    settled = ["pattern", False], ["later", False], ["refused", False], ["version-skew", False]
    assert in_agent(script, "proofs") == [["answered", False], *settled, *away, *relayed]


def test_an_invitation_that_no_header_holds_is_refused_and_stays_out_of_errors_and_the_log() -> None:
    script = """
        const found = [];
        for (const token of ["sesame\\nopen", "sesame \u2014 open"]) {
          const agent = await made({ token, address: "http://127.0.0.1:9", patience: 0 });
          const { state, problem } = await agent.step();
          found.push([state, problem, JSON.stringify(agent.export()).includes("sesame")]);
        }
        said(found);
    """
    assert in_agent(script) == [["failed", "unauthorized", False]] * 2
