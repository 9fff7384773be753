"""Where work runs: this process or several."""
