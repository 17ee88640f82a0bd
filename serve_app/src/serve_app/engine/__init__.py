"""What is changed about an engine's server and its connector, by subclassing only."""
