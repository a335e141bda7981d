"""What may happen next: given a fold and a request, the one record that follows, or a refusal."""
