"""`make bench`: the library against the obvious way, measured in the same process."""
