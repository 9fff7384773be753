"""The command line: thin. Parse, call, print."""

import os

# Read when torch loads its threads: on a busy machine threads that spin while they wait turn seconds into minutes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from oblivec.cli import audit as audit
from oblivec.cli import bench as bench
from oblivec.cli import data as data  # each command module registers itself
from oblivec.cli import demo as demo
from oblivec.cli import doctor as doctor
from oblivec.cli import policies as policies
from oblivec.cli import reproduce as reproduce
from oblivec.cli import store as store
from oblivec.cli import train as train
from oblivec.cli import unlearn as unlearn
from oblivec.cli.app import main

__all__ = ["main"]
