"""`perpetua init`: from labelled rows to the first snapshot and the key file."""
