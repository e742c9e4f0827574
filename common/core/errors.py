"""Every error that Tandem raises on purpose, in one tree, each with its problem type (RFC 9457).

Bugs of our own are not in this tree: they stay ``AssertionError``, ``TypeError``, ... and are never translated.
"""

from typing import Any, ClassVar

from common.core.plain import one_line, plain, visible

URN = "urn:tandem:problem:"
MAKE_ROOM = "; make room, then repeat the command"
"""The remedy where a disk is full."""
MEMBERS = 20  # further members of a peer's problem document that are kept, at most


class TandemError(Exception):
    """Root of the tree: a sentence for people, a problem type for programs.

    ``detail`` says the constraint and the value found, and, where it helps, what to do. Extra ``members`` of the
    problem document are numbers and strings, never private data. ``reported_by`` is the peer whose problem document it
    was; empty for an error of this process.
    """

    problem: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong"
    status: int = 500  # of its kind; of a problem that a peer reported, the status of the peer's answer

    def __init_subclass__(cls, *, problem: str, title: str, status: int = 0) -> None:
        super().__init_subclass__()
        cls.problem, cls.title, cls.status = problem, title, status or cls.status

    def __init__(self, detail: str, /, **members: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.members = members
        self.reported_by = ""

    @property
    def words(self) -> str:
        """The detail, after the name of the peer that reported it, where one did."""
        return f"{self.reported_by} says: {self.detail}" if self.reported_by else self.detail

    def __str__(self) -> str:
        return visible(self.words)  # an error that nothing catches goes to a terminal

    def document(self) -> dict[str, Any]:
        """Return the RFC 9457 problem document."""
        about = {"type": URN + self.problem, "title": self.title, "status": self.status, "detail": self.detail}
        return about | self.members


class BadInput(TandemError, problem="bad-input", title="Input not acceptable", status=422):
    """What somebody gave us is not acceptable; nothing changed."""


class BadScenario(BadInput, problem="bad-scenario", title="Scenario not acceptable"):
    """A scenario file or a ``--set`` option is wrong."""


class BadData(BadInput, problem="bad-data", title="Data not acceptable"):
    """Records that cannot be used."""


class BadFit(BadInput, ValueError, problem="bad-fit", title="Estimator cannot be fitted so"):
    """An estimator's parameters or data are not acceptable: nothing was released, nothing is charged."""


class BadMessage(BadInput, problem="bad-message", title="Message not acceptable"):
    """A message that does not say what its kind must say."""


class VersionSkew(BadMessage, problem="version-skew", title="Versions do not fit together", status=409):
    """Two parties speak different versions of the protocol; nothing of the message was used."""


class UnknownKey(BadMessage, problem="ohttp-key", title="Key configuration not acceptable", status=400):
    """A request was encapsulated to a key, or with algorithms, that this gateway has not (RFC 9458, section 5.3)."""


class BrokenLedger(BadInput, problem="broken-ledger", title="Ledger not acceptable"):
    """A ledger that was cut off, edited, put back or copied: what it says of what was spent cannot be trusted."""


class TooLarge(BadInput, problem="too-large", title="Body too large", status=413):
    """A request's body is larger than its resource can need, or does not say how large it is."""


class TooSlow(BadInput, problem="too-slow", title="Body too slow", status=408):
    """A request's body did not come in time."""


class BadHost(BadInput, problem="bad-host", title="Host header not acceptable", status=400):
    """A request that has no Host header, several, or one that names no host (RFC 9112, 3.2)."""


class BadPlugin(BadInput, problem="bad-plugin", title="Installed plug-in not acceptable", status=500):
    """An installed plug-in cannot be imported, or takes a name that is taken."""


class Refused(TandemError, problem="refused", title="Refused", status=403):
    """Well formed, but a party's own rules forbid it; nothing changed."""


class BudgetExceeded(Refused, problem="budget-exceeded", title="Privacy budget exceeded"):
    """A privacy budget would be exceeded."""


class StreamUsedUp(BudgetExceeded, problem="stream-used-up", title="Stream used up"):
    """A stream has given all unstable answers, or taken all questions, that were paid for; nothing was charged."""


class PolicyRefused(Refused, problem="policy", title="Outside this party's policy"):
    """Outside a party's own policy."""


class ConsentWithheld(Refused, problem="consent-withheld", title="Not agreed to"):
    """A person was asked whether to answer, and said no: nothing was answered, nothing is spent."""


class NotVouched(Refused, problem="not-vouched", title="No issuer vouches for this participant"):
    """No issuer that is accepted here vouches that a participant is a person, or speaks for so many."""


class InvitationUsed(Refused, problem="invitation-used", title="Invitation used", status=409):
    """Another key has enrolled with this invitation code."""


class PatternViolation(Refused, problem="pattern", title="Message out of turn", status=409):
    """Not allowed at this point of the protocol's message pattern."""


class AlreadyAnswered(Refused, problem="already-answered", title="Already answered", status=409):
    """An agent was asked twice, or answers twice."""


class Conflict(Refused, problem="conflict", title="Same id, different content", status=409):
    """The same id came with different content."""


class RolledBack(Refused, problem="rolled-back", title="Ledger behind what was released", status=409):
    """A ledger does not hold what was released before: it was put back, cut, or used twice."""


class RunBegun(Refused, problem="run-begun", title="Run has begun", status=409):
    """The run has begun: who is in its sample can no longer change."""


class ConfigurationMismatch(Refused, problem="configuration-mismatch", title="Run configuration differs", status=409):
    """The digest of the run's configuration differs from the one agreed on."""


class Unauthorized(TandemError, problem="unauthorized", title="Token missing or wrong", status=401):
    """A token is missing or wrong."""


class Forged(TandemError, problem="forged", title="Signature does not verify", status=401):
    """A signature does not verify, or an unexpected key signed."""


class NotFound(TandemError, problem="not-found", title="Not found", status=404):
    """There is no such thing here."""


class AuditFailed(TandemError, problem="audit-failed", title="Audit failed", status=422):
    """A transcript does not verify."""


class RunCancelled(TandemError, problem="run-cancelled", title="Run cancelled", status=409):
    """A run was cancelled: what was released stays released, and what was spent stays spent."""


class RunFailed(TandemError, problem="run-failed", title="Run ended without an answer"):
    """A run ended without an answer; what it was allowed to spend counts as spent."""


class FitFailed(RunFailed, RuntimeError, problem="fit-failed", title="Fit ended without an answer"):
    """An estimator's run ended without an answer; what it was allowed to spend counts as spent."""


class OperationFailed(TandemError, problem="operation-failed", title="Operation failed", status=500):
    """The curator's code failed while it held private records: always the same sentence, so that it tells nothing."""


class Superseded(TandemError, problem="superseded", title="Another process has taken over", status=503):
    """Another process has taken over what this one did: this one writes nothing more of it."""


class CannotWrite(TandemError, problem="cannot-write", title="Nothing can be stored at present", status=503):
    """A party cannot store what it must store first: nothing changed, and the same request may be made again."""

    retry_after = 2  # seconds after which to ask again


class Busy(TandemError, problem="busy", title="Too busy at present", status=503):
    """A service has more to do than it can at present; nothing changed, and the same request may be made again."""

    retry_after = 2  # seconds after which to ask again


class NotReady(TandemError, problem="not-ready", title="Not ready", status=503):
    """A service answers, and lacks something that its work needs."""


class PeerError(TandemError, problem="peer", title="Peer failed", status=502):
    """The other side's fault."""


class PeerUnavailable(PeerError, problem="peer-unavailable", title="Peer unavailable", status=503):
    """Nobody answers there."""


class PeerUntrusted(PeerUnavailable, problem="peer-untrusted", title="Peer not trusted"):
    """Somebody listens there, and TLS does not show that it is the one that was meant; or it does not accept us."""


class RelayUntrusted(PeerUnavailable, problem="relay-untrusted", title="Relay not trusted"):
    """A relay passed on what the pinned referee did not say: it changed it, kept it, or put something in its place."""


class PeerMisbehaved(PeerError, problem="peer-misbehaved", title="Peer misbehaved"):
    """It answered with something that no honest peer sends."""


def every_error() -> list[type[TandemError]]:
    """Return the whole tree, root first."""
    found: list[type[TandemError]] = [TandemError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return found


def from_document(document: dict[str, Any]) -> TandemError:
    """Rebuild the error that a peer reported as a problem document.

    Unknown types become :class:`PeerError`, and so do those that steer this process or judge a peer. Texts are made
    plain and short; of further members the first :data:`MEMBERS` are kept that are numbers or texts with a name.
    """
    own = (RunCancelled, Superseded, PeerError)
    kinds = {URN + kind.problem: kind for kind in every_error() if not issubclass(kind, own)}
    kind = kinds.get(str(document.get("type")), PeerError)
    members = {
        name: plain(value) if isinstance(value, str) else value
        for name, value in document.items()
        if name not in ("type", "title", "status", "detail")
        and (name.isascii() and name.isidentifier() and len(name) <= 40 and isinstance(value, str | int | float))
    }
    detail = str(document.get("detail", document.get("title", "unknown problem")))
    return kind(one_line(detail), **dict(list(members.items())[:MEMBERS]))
