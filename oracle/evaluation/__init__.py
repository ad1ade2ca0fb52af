"""What a predictor's error is on given data: trials for the owner's eyes, which are not private."""
