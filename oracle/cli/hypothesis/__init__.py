"""`perpetua hypothesis`: what a model whose answers are public has learned."""
