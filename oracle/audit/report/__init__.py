"""What an audit says of itself: the report, its page, its words, forms of others, and its score."""
