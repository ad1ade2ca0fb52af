"""`perpetua audit`: the attacks, and signed receipts."""
