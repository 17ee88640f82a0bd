"""What the driver does to and asks of the machine it runs on: programs, packages, its own virtual environment.

Everything here uses the standard library alone, because it runs before the driver's dependencies are installed.
"""
