"""The command line: one module per verb, arguments in, exit code out."""
