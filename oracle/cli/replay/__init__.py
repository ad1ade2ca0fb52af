"""`perpetua replay`: recorded answers verified, or another log answered."""
