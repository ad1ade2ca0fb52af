"""Whether what is drawn, chosen or released has the law that is due, judged by bets."""
