"""What a task is, as pure code over records: no disk, no clock, no randomness."""
