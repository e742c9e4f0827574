"""What all estimators share: their fitting, their frames, their guarantee."""
