"""One person's agent: their record, their consent, their policy's journal, and what they keep of what they sent."""
