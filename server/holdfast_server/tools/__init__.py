"""What agents can call: each tool a sentence for an agent and one call for us."""
