"""`perpetua evaluate`: the error on rows of one's own, before anything is released."""
