"""The command line: thin. Parse, call, print."""

from oblivec.cli.app import main

__all__ = ["main"]
