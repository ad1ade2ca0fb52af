"""`perpetua verify` and `fork` (once `replay`): recorded answers verified, or another log answered."""
