"""Every error that Tandem raises on purpose, in one tree, each with its problem type (RFC 9457).

Bugs of our own are not in this tree: they stay ``AssertionError``, ``TypeError``, ... and are never translated.
"""

from __future__ import annotations

from typing import Any, ClassVar

from common.core.plain import one_line, plain, visible

URN = "urn:tandem:problem:"
MEMBERS = 20
"""Further members of a peer's problem document that are kept, at most."""


class TandemError(Exception):
    """Root of the tree: a sentence for people, a problem type for programs.

    Args:
        detail: One sentence that says the constraint and the value found, and, where it helps, what to do.
        **members: Extra members of the problem document (numbers and strings; never private data).

    Attributes:
        reported_by: The peer whose problem document it was; empty for an error of this process.
    """

    problem: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500

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


class BadInput(TandemError):
    """What somebody gave us is not acceptable; nothing changed."""

    problem, title, status = "bad-input", "Input not acceptable", 422


class BadScenario(BadInput):
    """A scenario file or a ``--set`` option is wrong."""

    problem, title = "bad-scenario", "Scenario not acceptable"


class BadData(BadInput):
    """Records that cannot be used."""

    problem, title = "bad-data", "Data not acceptable"


class BadFit(BadInput, ValueError):
    """An estimator's parameters or data are not acceptable: nothing was released, nothing is charged."""

    problem, title = "bad-fit", "Estimator cannot be fitted so"


class BadMessage(BadInput):
    """A message that does not say what its kind must say."""

    problem, title = "bad-message", "Message not acceptable"


class VersionSkew(BadMessage):
    """Two parties speak different versions of the protocol; nothing of the message was used."""

    problem, title, status = "version-skew", "Versions do not fit together", 409


class UnknownKey(BadMessage):
    """A request was encapsulated to a key, or with algorithms, that this gateway has not (RFC 9458, section 5.3)."""

    problem, title, status = "ohttp-key", "Key configuration not acceptable", 400


class BrokenLedger(BadInput):
    """A ledger that was cut off, edited, put back or copied: what it says of what was spent cannot be trusted."""

    problem, title = "broken-ledger", "Ledger not acceptable"


class TooLarge(BadInput):
    """A request's body is larger than its resource can need, or does not say how large it is."""

    problem, title, status = "too-large", "Body too large", 413


class TooSlow(BadInput):
    """A request's body did not come in time."""

    problem, title, status = "too-slow", "Body too slow", 408


class BadHost(BadInput):
    """A request that has no Host header, several, or one that names no host (RFC 9112, 3.2)."""

    problem, title, status = "bad-host", "Host header not acceptable", 400


class BadPlugin(BadInput):
    """An installed plug-in cannot be imported, or takes a name that is taken."""

    problem, title, status = "bad-plugin", "Installed plug-in not acceptable", 500


class Refused(TandemError):
    """Well formed, but a party's own rules forbid it; nothing changed."""

    problem, title, status = "refused", "Refused", 403


class BudgetExceeded(Refused):
    """A privacy budget would be exceeded."""

    problem, title = "budget-exceeded", "Privacy budget exceeded"


class PolicyRefused(Refused):
    """Outside a party's own policy."""

    problem, title = "policy", "Outside this party's policy"


class ConsentWithheld(Refused):
    """A person was asked whether to answer, and said no: nothing was answered, nothing is spent."""

    problem, title = "consent-withheld", "Not agreed to"


class NotVouched(Refused):
    """No issuer that is accepted here vouches that a participant is a person, or speaks for so many."""

    problem, title = "not-vouched", "No issuer vouches for this participant"


class PatternViolation(Refused):
    """Not allowed at this point of the protocol's message pattern."""

    problem, title, status = "pattern", "Message out of turn", 409


class AlreadyAnswered(Refused):
    """An agent was asked twice, or answers twice."""

    problem, title, status = "already-answered", "Already answered", 409


class Conflict(Refused):
    """The same id came with different content."""

    problem, title, status = "conflict", "Same id, different content", 409


class RolledBack(Refused):
    """A ledger does not hold what was released before: it was put back, cut, or used twice."""

    problem, title, status = "rolled-back", "Ledger behind what was released", 409


class RunBegun(Refused):
    """The run has begun: who is in its sample can no longer change."""

    problem, title, status = "run-begun", "Run has begun", 409


class ConfigurationMismatch(Refused):
    """The digest of the run's configuration differs from the one agreed on."""

    problem, title, status = "configuration-mismatch", "Run configuration differs", 409


class Unauthorized(TandemError):
    """A token is missing or wrong."""

    problem, title, status = "unauthorized", "Token missing or wrong", 401


class Forged(TandemError):
    """A signature does not verify, or an unexpected key signed."""

    problem, title, status = "forged", "Signature does not verify", 401


class NotFound(TandemError):
    """There is no such thing here."""

    problem, title, status = "not-found", "Not found", 404


class AuditFailed(TandemError):
    """A transcript does not verify."""

    problem, title, status = "audit-failed", "Audit failed", 422


class RunCancelled(TandemError):
    """A run was cancelled: what was released stays released, and what was spent stays spent."""

    problem, title, status = "run-cancelled", "Run cancelled", 409


class RunFailed(TandemError):
    """A run ended without an answer; what it was allowed to spend counts as spent."""

    problem, title = "run-failed", "Run ended without an answer"


class FitFailed(RunFailed, RuntimeError):
    """An estimator's run ended without an answer; what it was allowed to spend counts as spent."""

    problem, title = "fit-failed", "Fit ended without an answer"


class OperationFailed(TandemError):
    """The curator's code failed while it held private records: always the same sentence, so that it tells nothing."""

    problem, title, status = "operation-failed", "Operation failed", 500


class Superseded(TandemError):
    """Another process has taken over what this one did: this one writes nothing more of it."""

    problem, title, status = "superseded", "Another process has taken over", 503


class CannotWrite(TandemError):
    """A party cannot store what it must store first: nothing changed, and the same request may be made again."""

    problem, title, status = "cannot-write", "Nothing can be stored at present", 503
    retry_after = 2
    """Seconds after which to ask again."""


class Busy(TandemError):
    """A service has more to do than it can at present; nothing changed, and the same request may be made again."""

    problem, title, status = "busy", "Too busy at present", 503
    retry_after = 2
    """Seconds after which to ask again."""


class NotReady(TandemError):
    """A service answers, and lacks something that its work needs."""

    problem, title, status = "not-ready", "Not ready", 503


class PeerError(TandemError):
    """The other side's fault."""

    problem, title, status = "peer", "Peer failed", 502


class PeerUnavailable(PeerError):
    """Nobody answers there."""

    problem, title, status = "peer-unavailable", "Peer unavailable", 503


class PeerUntrusted(PeerUnavailable):
    """Somebody listens there, and TLS does not show that it is the one that was meant; or it does not accept us."""

    problem, title = "peer-untrusted", "Peer not trusted"


class RelayUntrusted(PeerUnavailable):
    """A relay passed on what the pinned referee did not say: it changed it, kept it, or put something in its place."""

    problem, title = "relay-untrusted", "Relay not trusted"


class PeerMisbehaved(PeerError):
    """It answered with something that no honest peer sends."""

    problem, title = "peer-misbehaved", "Peer misbehaved"


def every_error() -> list[type[TandemError]]:
    """Return the whole tree, root first (for the problem-type table and its test)."""
    found: list[type[TandemError]] = [TandemError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return found


def from_document(document: dict[str, Any]) -> TandemError:
    """Rebuild the error that a peer reported as a problem document.

    Unknown types become :class:`PeerError`, and so do those that steer this process (a run is cancelled by its own
    operator, another process of the same referee has taken over) or judge a peer: a peer cannot raise them here.

    Texts are made plain and short here, where they enter: they may go on into results, transcripts and further problem
    documents. Of further members the first :data:`MEMBERS` are kept, if each is a number or a text with a name.
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
