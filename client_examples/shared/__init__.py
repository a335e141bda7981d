"""What the examples share: a connection to Holdfast, and a stage on which agents are killed."""
