"""Running an application in the foreground: a small supervisor, and a runner process that holds Ray."""
