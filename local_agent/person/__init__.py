"""One person's agent: record, consent, activity log, credential, and the receipts of what was sent."""
