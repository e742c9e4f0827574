"""The contributor's side: the offer that a person reads, the record that is sent, and the curator over HTTP."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.core import canonical
from common.core.durable import claim, durable_key, write_durably, write_once
from common.core.errors import BadInput, BadMessage, ConsentWithheld, Forged, NotFound, RunBegun
from common.core.plain import in_columns
from common.crypto.identity import Identity, Signed, check_public, verify
from common.net.client import ANSWER, Client, bearer, read_signed_reply
from common.privacy.guarantee import best_guess, formula, in_words
from curator.contributions import messages
from curator.contributions.messages import Contribution, ContributionReceipt, Fields, Offer, Withdrawal

SENT, RECEIPT, WITHDRAWAL_RECEIPT = "contribution.json", "receipt.json", "withdrawal-receipt.json"
"""Files with what leaves this device, and the curator's receipts for it. The record itself is not stored."""

Agree = Callable[[Offer, Fields], bool]  # shows what would be sent and the guarantee, and asks for consent


class Contributor:
    """One person who contributes one record to one curator.

    Raises:
        BadInput: If the directory belongs to another curator, no key is known, or the given key is invalid.
    """

    def __init__(self, folder: Path, curator: str | None) -> None:
        if curator is None and not (folder / "claim.json").exists():
            raise BadInput(
                "give the curator's key with --curator-key, as you know it from the curator itself: a record is sealed "
                "to that key alone"
            )
        self._folder = folder
        key = None if curator is None else check_public(curator, "--curator-key")
        self.curator = str(claim(folder, {"curator": key})["curator"])
        self._identity = Identity.load_or_create(folder / "identity.key")

    @property
    def key(self) -> str:
        return self._identity.public

    def contribute(self, record: Mapping[str, Any], collector: CollectorClient, token: str, agree: Agree) -> Signed:
        """Contribute a record, and return the curator's receipt; a retry sends the same sealed bytes again.

        Args:
            record: The person's fields by column; fields that are not in the offer's table are not sent.
            agree: Called for consent before anything is sealed.

        Raises:
            BadData: If the record does not fit the offer's table; names the field.
            ConsentWithheld: If the person does not agree; nothing left this device.
            BadInput: If another record was contributed from this directory, or it was withdrawn.
        """
        if (self._folder / WITHDRAWAL_RECEIPT).exists():
            raise BadInput(
                f"what was contributed from {self._folder} is withdrawn, and the curator takes nothing more of this "
                f"key: contribute with a fresh --state"
            )
        offer = collector.offer(self.curator)
        texts = messages.checked_fields(record, offer.table)
        signed = self._sealed_message(offer, texts, agree)
        receipt = self._check_receipt(collector.contribute(signed, token), signed, "kept")
        write_durably(self._folder / RECEIPT, receipt.raw(), mode=0o600)
        return receipt

    def withdraw(self, collector: CollectorClient, token: str) -> Signed:
        """Have the contribution deleted, and return the curator's receipt.

        A curator that has not received it might accept it later from a party that delayed it. So the sealed record is
        sent first, and then deleted: from then on the curator accepts nothing from this key.

        Raises:
            BadInput: If nothing was contributed from this directory.
            RunBegun: If the run has begun with this record, which stays in it.
            NotFound: If the run has begun without it.
        """
        if not (self._folder / SENT).exists():
            raise BadInput(f"nothing was contributed from {self._folder}: name another directory with --state")
        signed = self._sent_message()[0]
        message = Contribution.parse(signed.message)
        withdrawal = Withdrawal(curator=message.curator, offer=message.offer, contribution=message.contribution)
        request = self._identity.sign(withdrawal.KIND, withdrawal.wire())
        try:
            answer = collector.withdraw(request)
        except NotFound as error:
            try:
                collector.contribute(signed, token)
            except RunBegun:
                raise NotFound(f"{error.detail}; its run has begun without it, and it takes nothing more") from None
            answer = collector.withdraw(request)
        receipt = self._check_receipt(answer, signed, "withdrawn")
        write_durably(self._folder / WITHDRAWAL_RECEIPT, receipt.raw(), mode=0o600)
        return receipt

    def _sealed_message(self, offer: Offer, texts: Fields, agree: Agree) -> Signed:
        plaintext = messages.padded(texts, offer.table)
        if not (self._folder / SENT).exists():
            if not agree(offer, texts):
                raise ConsentWithheld("not confirmed: nothing was sent")
            # Stored before it is sent, and sealed once: each sealing differs, and the curator accepts only one.
            message = messages.seal(plaintext, offer, self.curator, secrets.token_hex(16), self.key)
            signed = self._identity.sign(message.KIND, message.wire())
            sealed = canonical.encode({"signed": signed.wire(), "record": self._record_tag(plaintext)})
            write_once(self._folder / SENT, lambda: sealed)
        signed, tag = self._sent_message()
        if (signed.message["offer"], tag) != (offer.fingerprint(), self._record_tag(plaintext)):
            raise BadInput(
                f"another record, or to another offer, was contributed from {self._folder}: it can be withdrawn "
                f"(--withdraw), not exchanged. To contribute to another run give a fresh --state"
            )
        return signed

    def _sent_message(self) -> tuple[Signed, str]:
        path = self._folder / SENT
        try:
            tree = canonical.decode(path.read_bytes())
            signed = Signed.parse(tree["signed"])
            verify(signed, Contribution.KIND, self.key)
            return signed, str(tree["record"])
        except (BadMessage, Forged, KeyError, TypeError):
            raise BadInput(f"{path} cannot be read: it was cut off or edited") from None

    def _record_tag(self, plaintext: bytes) -> str:
        key = durable_key(self._folder / "record.key")
        return hashlib.blake2b(plaintext, digest_size=32, key=key, person=b"tandem record").hexdigest()

    def _check_receipt(self, receipt: Signed, contribution: Signed, status: str) -> Signed:
        content = ContributionReceipt.parse(verify(receipt, ContributionReceipt.KIND, self.curator))
        contents = (content.offer, content.contribution, content.contributor, content.status)
        if contents != (contribution.message["offer"], contribution.message["contribution"], self.key, status):
            raise Forged("the curator's receipt is about another contribution: ask again")
        return receipt


class CollectorClient(Client):
    """Requests of a contributor."""

    party = "curator"
    most = ANSWER

    def offer(self, curator: str) -> Offer:
        response = self.request("GET", "/v1/contributions/offer")
        self.check_states_protocol(response)
        key_name = (
            "the key that you gave (--curator-key): somebody else answers at this address, or in between, or the key "
            "is another curator's. Nothing was sent"
        )
        return Offer.parse(verify(read_signed_reply(response), Offer.KIND, curator, key_name))

    def contribute(self, signed: Signed, token: str) -> Signed:
        # A word processor may have changed dashes and spaces in a code; they are no part of it.
        plain = "".join(character for character in token.strip() if character.isascii() or character.isalnum())
        return self.signed("POST", "/v1/contributions", signed, headers=bearer(plain, "this code or token"))

    def withdraw(self, signed: Signed) -> Signed:
        return self.signed("POST", "/v1/withdrawals", signed)


def description(offer: Offer, texts: Fields, curator: str, address: str) -> str:
    """Return a description of an offer, and of what would be sent for it, in plain words."""
    guarantee = offer.guarantee
    epsilon, delta = guarantee.pair
    with_guess = guarantee.private and guarantee.protects == "records"
    guess = (
        f" Somebody who held two records for equally likely to be yours, and sees all that is released, guesses right "
        f"with probability {best_guess(epsilon, delta):.4g} at most (without it: 0.5)."
        if with_guess
        else ""
    )
    return in_columns(
        {
            "Who gets it": f"the curator with the key {curator}, at {address}. The record leaves this device sealed to "
            f"that curator: its carrier cannot read it, nor change it unnoticed. The curator can read it: you "
            f"trust the person who runs it to use it for this alone",
            "What is sent": f"these {len(texts)} fields, and no other",
            **{f"  {name}": text or "not known" for name, text in texts.items()},
            "What for": f"{offer.title} (scenario {offer.scenario!r}), a run about {offer.people} people",
            "What is promised": f"{formula(guarantee)}. {in_words(guarantee)}{guess}",
            "Until it begins": "you can have the record deleted (curator contribute --withdraw). From then on it is "
            "part of the run",
            "Please note": "that you take part is not hidden from the curator or from who carries the message. Decide "
            "by who asks and what is promised, not by what your record holds.",
        }
    )
