"""Every error that Tandem raises on purpose, in one class hierarchy, each with its problem type (RFC 9457).

Bugs in Tandem are not in this hierarchy: they remain ``AssertionError``, ``TypeError``, ... and are never translated.
"""

from typing import Any, ClassVar

from common.core.plain import one_line, plain, visible

URN = "urn:tandem:problem:"
MAKE_ROOM = "; make room, then repeat the command"
"""The remedy for a full disk."""
MEMBERS = 20  # most further members of a peer's problem document that are kept


class TandemError(Exception):
    """The root of the hierarchy: a sentence for people, and a problem type for programs.

    ``detail`` states the constraint and the value found and, where it helps, what to do. Extra ``members`` of the
    problem document are numbers and strings, never private data. ``reported_by`` is the peer that reported the
    problem; empty for an error of this process.
    """

    problem: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong"
    status: int = 500  # of its class; for a problem that a peer reported, the status of the peer's response

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
        """The detail, with the name of the peer in front if a peer reported it."""
        return f"{self.reported_by} says: {self.detail}" if self.reported_by else self.detail

    def __str__(self) -> str:
        return visible(self.words)  # an uncaught error is printed on a terminal

    def document(self) -> dict[str, Any]:
        """Return the RFC 9457 problem document."""
        fields = {"type": URN + self.problem, "title": self.title, "status": self.status, "detail": self.detail}
        return fields | self.members


class BadInput(TandemError, problem="bad-input", title="Input not acceptable", status=422):
    """An input is not acceptable; nothing changed."""


class BadScenario(BadInput, problem="bad-scenario", title="Scenario not acceptable"):
    """A scenario file or a ``--set`` option is wrong."""


class BadData(BadInput, problem="bad-data", title="Data not acceptable"):
    """Records that cannot be used."""


class BadFit(BadInput, ValueError, problem="bad-fit", title="Estimator cannot be fitted so"):
    """An estimator's parameters or data are not acceptable: nothing was released, nothing is charged."""


class BadMessage(BadInput, problem="bad-message", title="Message not acceptable"):
    """A message does not have the form that its kind requires."""


class VersionSkew(BadMessage, problem="version-skew", title="Versions do not fit together", status=409):
    """Two parties use different versions of the protocol; no part of the message was used."""


class UnknownKey(BadMessage, problem="ohttp-key", title="Key configuration not acceptable", status=400):
    """A request was encapsulated with a key or algorithms that this gateway does not have (RFC 9458, section 5.3)."""


class BrokenLedger(BadInput, problem="broken-ledger", title="Ledger not acceptable"):
    """A ledger that was cut off, edited, copied, or replaced by an older copy: its charges cannot be trusted."""


class TooLarge(BadInput, problem="too-large", title="Body too large", status=413):
    """A request's body is larger than its resource can need, or does not state its length."""


class TooSlow(BadInput, problem="too-slow", title="Body too slow", status=408):
    """A request's body did not arrive before the deadline."""


class BadHost(BadInput, problem="bad-host", title="Host header not acceptable", status=400):
    """A request has no Host header, several, or one that names no host (RFC 9112, 3.2)."""


class BadPlugin(BadInput, problem="bad-plugin", title="Installed plug-in not acceptable", status=500):
    """An installed plug-in cannot be imported, or registers a name that is already registered."""


class Refused(TandemError, problem="refused", title="Refused", status=403):
    """A request is well formed, but a party's own rules forbid it; nothing changed."""


class BudgetExceeded(Refused, problem="budget-exceeded", title="Privacy budget exceeded"):
    """A privacy budget would be exceeded."""


class StreamUsedUp(BudgetExceeded, problem="stream-used-up", title="Stream used up"):
    """A stream has used all unstable answers, or all questions, that were charged for; nothing was charged now."""


class PolicyRefused(Refused, problem="policy", title="Outside this party's policy"):
    """A request is outside a party's own policy."""


class ConsentWithheld(Refused, problem="consent-withheld", title="Not agreed to"):
    """A person was asked for consent and declined: nothing was answered, nothing is spent."""


class NotVouched(Refused, problem="not-vouched", title="No issuer vouches for this participant"):
    """No accepted issuer vouches that a participant is a person, or represents that many people."""


class InvitationUsed(Refused, problem="invitation-used", title="Invitation used", status=409):
    """Another key has enrolled with this invitation code."""


class PatternViolation(Refused, problem="pattern", title="Message out of turn", status=409):
    """A message is not allowed at this point of the protocol's message pattern."""


class AlreadyAnswered(Refused, problem="already-answered", title="Already answered", status=409):
    """An agent was asked or answers more often than allowed."""


class Conflict(Refused, problem="conflict", title="Same id, different content", status=409):
    """The same id was used with different content."""


class RolledBack(Refused, problem="rolled-back", title="Ledger behind what was released", status=409):
    """A ledger does not contain what was released before: it is an older copy, was cut, or was used twice."""


class RunBegun(Refused, problem="run-begun", title="Run has begun", status=409):
    """The run has begun, so its sample can no longer change."""


class ConfigurationMismatch(Refused, problem="configuration-mismatch", title="Run configuration differs", status=409):
    """The digest of the run's configuration differs from the one agreed on."""


class Unauthorized(TandemError, problem="unauthorized", title="Token missing or wrong", status=401):
    """A token is missing or wrong."""


class Forged(TandemError, problem="forged", title="Signature does not verify", status=401):
    """A signature does not verify, or an unexpected key signed."""


class NotFound(TandemError, problem="not-found", title="Not found", status=404):
    """There is no such resource, file or name."""


class AuditFailed(TandemError, problem="audit-failed", title="Audit failed", status=422):
    """A transcript does not verify."""


class RunCancelled(TandemError, problem="run-cancelled", title="Run cancelled", status=409):
    """A run was cancelled: its releases remain released, and its cost remains spent."""


class RunFailed(TandemError, problem="run-failed", title="Run ended without an answer"):
    """A run ended without an answer; the budget that it was allowed counts as spent."""


class FitFailed(RunFailed, RuntimeError, problem="fit-failed", title="Fit ended without an answer"):
    """An estimator's run ended without an answer; the budget that it was allowed counts as spent."""


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
    """A peer failed."""


class PeerUnavailable(PeerError, problem="peer-unavailable", title="Peer unavailable", status=503):
    """A peer does not answer."""


class PeerUntrusted(PeerUnavailable, problem="peer-untrusted", title="Peer not trusted"):
    """A peer listens, but TLS does not authenticate it as the intended one; or it does not accept this party."""


class RelayUntrusted(PeerUnavailable, problem="relay-untrusted", title="Relay not trusted"):
    """A relay returned a reply that the pinned referee did not send: it changed, withheld or replaced the reply."""


class PeerMisbehaved(PeerError, problem="peer-misbehaved", title="Peer misbehaved"):
    """A peer answered with something that no honest peer sends."""


def every_error() -> list[type[TandemError]]:
    """Return all classes of the hierarchy, the root first."""
    classes: list[type[TandemError]] = [TandemError]
    for kind in classes:
        classes.extend(kind.__subclasses__())
    return classes


def from_document(document: dict[str, Any]) -> TandemError:
    """Rebuild the error that a peer reported as a problem document.

    Unknown types become :class:`PeerError`, and so do those that control this process or are verdicts on a peer. Texts
    are made plain and short; the first :data:`MEMBERS` further members that are numbers or texts are kept.
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
