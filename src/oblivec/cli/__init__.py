"""The command line: thin. Parse, call, print."""

from oblivec.cli import audit as audit
from oblivec.cli import bench as bench
from oblivec.cli import data as data  # each command module registers itself
from oblivec.cli import demo as demo
from oblivec.cli import doctor as doctor
from oblivec.cli import train as train
from oblivec.cli.app import main

__all__ = ["main"]
