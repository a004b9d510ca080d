"""Tests of railyard.client without a cluster: `python3 -m unittest discover -s tests/client -t .` here."""
