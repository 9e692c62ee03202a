"""Training of the classifier of orders, and the texts it learns from."""
